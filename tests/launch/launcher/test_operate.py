"""Which process a person means."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest

from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import operate


def row(actor: str) -> SimpleNamespace:
    return SimpleNamespace(actor=actor, role=actor.split("/", maxsplit=1)[0])


def test_a_role_of_one_process_names_it_and_one_of_several_names_them(monkeypatch, tmp_path):
    run = SimpleNamespace(children=[row("ho3/1"), row("ho1/1"), row("ho1/2")])
    monkeypatch.setattr(operate, "find_running", lambda _home: run)
    home = make_home(tmp_path)
    assert operate.find_row(home, "ho3").actor == operate.find_row(home, "ho3/1").actor == "ho3/1"
    for given, said in (("ho1", "name one of ho1/1, ho1/2"), ("ho4", "there are ho3/1, ho1/1, ho1/2")):
        with pytest.raises(CommandError, match=said) as caught:
            operate.find_row(home, given)
        assert caught.value.exit_code == exit_codes.USAGE


@pytest.mark.parametrize(
    ("given", "said", "next_one"),
    [
        ("ho1/remote-1", "a worker of another host", "drain ho1/remote-1"),
        ("launcher", "goes with the cluster", "down"),
        ("zygote", "goes with the cluster", "down"),
    ],
)
def test_of_what_ps_shows_besides_it_is_said_what_to_do_instead(monkeypatch, tmp_path, given, said, next_one):
    monkeypatch.setattr(operate, "find_running", lambda _home: SimpleNamespace(children=[row("ho1/1")]))
    with pytest.raises(CommandError, match=said) as caught:
        operate.find_row(make_home(tmp_path), given)
    assert caught.value.exit_code == exit_codes.USAGE and next_one in caught.value.hint


def test_the_log_of_a_process_that_failed_is_named_with_its_home(monkeypatch, tmp_path):
    """The line can be pasted, whatever the home is called."""
    home = make_home(tmp_path / "my home")
    failed = SimpleNamespace(actor="ho1/1", role="ho1", state="failed", note="it broke")
    monkeypatch.setattr(operate, "show_tail", lambda *_words: None)
    with pytest.raises(CommandError) as caught:
        operate._check(home, SimpleNamespace(phase="up"), {"ho1/1": failed}, 1)
    assert shlex.split(caught.value.hint) == ["hobus", "logs", "ho1/1", "--home", str(home.root)]
