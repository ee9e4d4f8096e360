"""What programs import."""

from __future__ import annotations

import sys

import pytest

import hobus


def test_each_name_is_there() -> None:
    assert {getattr(hobus, name).__name__ for name in hobus.__all__} == set(hobus.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = hobus.Nonsense


def test_without_the_extra_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "hobus.launch.sessions.http_client", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'hobus\[http\]'"):
        _ = hobus.Client
    assert hobus.ClusterClient.__name__ == "ClusterClient"
