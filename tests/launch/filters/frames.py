"""Tapped frames for tests."""

from __future__ import annotations

from typing import Any

from hobus.bus.broker.tap_record import TapRecord

SESSION = "1a2b3c4d-0000-4000-8000-000000000001"
OTHER = "1a2b9999-0000-4000-8000-000000000002"


def frame(**fields: Any) -> TapRecord:
    """A tapped work order of the second run of SESSION, with these fields changed."""
    values: dict[str, Any] = {
        "epoch": "e", "sequence": 1, "at": 100.0, "verdict": "delivered", "code": "", "kind": "request",
        "type": "wo.execute", "message_id": f"WO-{SESSION}-2.1.1", "correlation_id": "",
        "causation_id": f"turn:{SESSION}/in-7/door/1@d:5.1.1.1", "sender": "ho2/1@a", "destination": "ho1",
        "worker": "ho1/1@b", "key": "", "trace": "", "deadline_ms": 30_000, "attempt": 1, "size": 12_000,
        "body_sha256": "00", "sensitive": True, "lane": "broker", "body": None,
    }  # fmt: skip
    return TapRecord(**(values | fields))
