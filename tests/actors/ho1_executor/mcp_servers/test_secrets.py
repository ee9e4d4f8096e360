"""References of a server's configuration, resolved in its process."""

from __future__ import annotations

import pytest

from hobus.actors.ho1_executor.mcp_servers.secrets import NoSecret, make_environment, resolve_references, without


def test_references_are_replaced_and_remembered(tmp_path):
    (tmp_path / "k").write_text("two\n")
    found, secret = resolve_references({"X": "plain", "Y": "env:A_KEY", "Z": f"file:{tmp_path}/k"}, {"A_KEY": "one"})
    assert found == {"X": "plain", "Y": "one", "Z": "two"}
    assert secret == ["one", "two"]
    assert without("bad key one or two", secret) == "bad key (hidden) or (hidden)"


@pytest.mark.parametrize("reference", ["env:NOT_SET_ANYWHERE", "file:/nowhere/at/all"])
def test_a_reference_that_leads_nowhere_is_named(reference):
    with pytest.raises(NoSecret, match=reference.partition(":")[2]):
        resolve_references({"TOKEN": reference}, {})


def test_a_server_gets_little_of_the_workers_environment(monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", "secret")
    monkeypatch.setenv("PATH", "/bin")
    assert "PROVIDER_KEY" not in make_environment({})
    assert make_environment({"PATH": "/own", "X": "1"})["PATH"] == "/own"
