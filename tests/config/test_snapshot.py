"""The frozen snapshot and its digest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import pack, unpack
from hobus.config.files import SHIPPED_ROOT, Layers
from hobus.config.snapshot import Snapshot, compute_digest, load_snapshot


def test_snapshot_survives_its_bytes() -> None:
    snapshot = load_snapshot()
    data = snapshot.to_bytes()
    again = Snapshot.from_bytes(data)
    assert again == snapshot
    assert again.digest == snapshot.digest == compute_digest(data)
    assert again.to_bytes() == data
    assert again.config == snapshot.config
    assert dict(again.agents) == dict(snapshot.agents)
    assert dict(again.prompt_packs) == dict(snapshot.prompt_packs)


def test_digest_has_its_documented_form() -> None:
    scheme, _, digits = load_snapshot().digest.partition(":")
    assert (scheme, len(digits)) == ("sha256", 64)
    int(digits, 16)


def test_digest_depends_on_the_bytes_of_the_files_and_not_on_where_they_lie(tmp_path: Path) -> None:
    """The same file in another place has the same digest; written otherwise it is another version, of equal settings."""
    value = json.loads((SHIPPED_ROOT / "admin_config.json").read_text(encoding="utf-8"))
    texts = [json.dumps(value), json.dumps(value), json.dumps(dict(reversed(value.items())), indent=7)]
    found: list[Snapshot] = []
    for number, text in enumerate(texts):
        file = tmp_path / f"mine-{number}.json"
        file.write_text(text, encoding="utf-8")
        found.append(load_snapshot(Layers(config_file=file)))
        assert found[-1].origins["admin_config.json"] == str(file)
    assert found[0].digest == found[1].digest != found[2].digest
    assert found[0].config == found[2].config == load_snapshot().config


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("agents/ADMIN.json", "You ", "Do "),
        ("prompt_packs/PRM-CLASSIFY-001.txt", "[[user]]", "[[user]]\nPlease."),
        ("contracts/PRC-CLASSIFY-001.json", "2.0.0", "2.0.1"),
        ("packages/PKG-ATTENTION-001/manifest.json", "1.1.0", "1.1.1"),
        ("frameworks/FMWK-004_Attention/manifest.yaml", "active", "draft"),
    ],
)
def test_digest_changes_with_every_asset(tmp_path: Path, name: str, old: str, new: str) -> None:
    text = (SHIPPED_ROOT / name).read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(text.replace(old, new), encoding="utf-8")
    assert load_snapshot(Layers(own=tmp_path)).digest != load_snapshot().digest


def test_snapshot_cannot_be_changed() -> None:
    snapshot = load_snapshot()
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshot.digest = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.agents["OTHER"] = snapshot.agents["ADMIN"]  # type: ignore[index]
    with pytest.raises(ValueError, match="frozen"):
        snapshot.config.gateway.attempts_max = 1


@pytest.mark.parametrize("data", [b"", b"\xc1", pack({}), pack([1]), pack({"config": {}}), b"\x00" * 100])
def test_bytes_that_are_no_snapshot_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        Snapshot.from_bytes(data)


def test_other_encoding_of_the_same_content_is_refused() -> None:
    """The digest names bytes; only the canonical ones count."""
    value = unpack(load_snapshot().to_bytes())
    with pytest.raises(ConfigError, match="canonical"):
        Snapshot.from_bytes(pack(dict(reversed(value.items()))))


def test_fields_of_a_schema_keep_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    """A model that is to think before it answers writes `thought` first only if its schema has it first."""
    agent = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text(encoding="utf-8"))
    fields = {"thought": {"type": "string"}, "answer": {"type": "string"}}
    agent["output_schema"] = {"type": "object", "properties": fields, "required": [*fields]}
    file = tmp_path / "agents" / "ADMIN.json"
    file.parent.mkdir()
    file.write_text(json.dumps(agent), encoding="utf-8")
    kept = Snapshot.from_bytes(load_snapshot(Layers(own=tmp_path)).to_bytes()).agents["ADMIN"].output_schema
    assert kept is not None and [*kept] == ["type", "properties", "required"] and [*kept["properties"]] == [*fields]
