"""What `hobus memory` takes from a person, and how it says what it found."""

from types import SimpleNamespace

import pytest

from hobus.bus.messages import memory as m
from hobus.launch.cli import main as cli
from hobus.launch.cli.commands import cluster_options, memory
from hobus.launch.cluster.home import home_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from tests.actors.ho3_memory.builders import artifact


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-31", "2026-01-31T00:00:00.000000Z"),
        ("2026-01-31T12:30", "2026-01-31T12:30:00.000000Z"),
        ("2026-01-31T12:30:01Z", "2026-01-31T12:30:01.000000Z"),
        ("2026-01-31T12:30:01.5", "2026-01-31T12:30:01.500000Z"),
        (None, None),
    ],
)
def test_a_time_may_be_as_short_as_a_day(given, expected):
    """UTC; what is left out is zero."""
    assert memory._time(given) == expected


@pytest.mark.parametrize(
    "given", ["", "yesterday", "2026-02-31", "2026-01-31T25:00", "2026-01-31T12:30+02:00", "2026", "٢٠٢٦-01-31"]
)
def test_what_is_no_time_is_told(given):
    """With an example."""
    with pytest.raises(CommandError, match="--as-of") as caught:
        memory._time(given)
    assert caught.value.exit_code == exit_codes.USAGE and "2026-01-31" in caught.value.message


@pytest.mark.parametrize("given", ["", "tool", "tool:", "Tool:x", "tool:a b", "tool:" + "x" * 200])
def test_what_is_no_signal_is_told(given):
    """With its form and the command that lists them."""
    with pytest.raises(CommandError, match="not a signal") as caught:
        memory._signal(given)
    assert caught.value.exit_code == exit_codes.USAGE and caught.value.hint == "hobus memory signals"


@pytest.mark.parametrize("given", ["", "ART-", "OVL-1", "ART-a b", "ART-" + "x" * 100])
def test_what_is_no_artifact_is_told(given):
    """Before anybody is asked."""
    with pytest.raises(CommandError, match="not an artifact") as caught:
        memory._artifact(given)
    assert caught.value.exit_code == exit_codes.USAGE


@pytest.mark.parametrize("given", ["", "  "])
def test_a_change_needs_a_reason(given):
    """How long it may be memory says itself."""
    with pytest.raises(CommandError, match="--reason"):
        memory._given(given)


@pytest.mark.parametrize(
    ("changed", "is_active", "word"),
    [
        ({}, True, "active"),
        ({"enabled": False}, False, "off"),
        ({"weight": 0.0}, False, "silent"),
        ({}, False, "expired"),
    ],
)
def test_one_word_says_why_a_line_is_in_prompts_or_not(changed, is_active, word):
    """Off goes before silent, silent before expired."""
    overlay = m.Overlay(overlay_id="OVL-1", artifact=artifact(**changed), is_active=is_active)
    assert memory._state(overlay) == word


@pytest.mark.parametrize("given", [float("nan"), float("inf"), -0.5])
def test_a_weight_that_is_none_is_the_callers_mistake(given):
    """A range refuses what is outside of it, but not what cannot be compared."""
    assert memory._weight(0.0) == 0.0
    with pytest.raises(CommandError, match="from 0 to 1") as caught:
        memory._weight(given)
    assert caught.value.exit_code == exit_codes.USAGE


@pytest.mark.parametrize("check", [memory._given, memory._artifact, memory._signal])
def test_what_is_not_utf_8_is_the_callers_mistake(check):
    """The shell passes any bytes."""
    with pytest.raises(CommandError) as caught:
        check("ART-\udcff" if check is memory._artifact else "tool:\udcff")
    assert caught.value.exit_code == exit_codes.USAGE


@pytest.mark.parametrize(("checkpoint", "said"), [(-1, "up to #7, no checkpoint yet"), (5, "checkpoint at #5")])
def test_no_checkpoint_is_no_number(monkeypatch, capsys, tmp_path, checkpoint, said):
    """-1 is how the message says that there is none."""
    found = m.MemoryStats(
        signals=0,
        events=0,
        overlays=0,
        active_overlays=0,
        gate_mode="counting",
        applied_seq=7,
        checkpoint_seq=checkpoint,
        as_of=m.AsOf(as_of_ts="2026-01-31T00:00:00.000000Z", as_of_seq=7, from_clock=True),
    )
    host = SimpleNamespace(agent_id="ADMIN")
    config = SimpleNamespace(host=host, memory=host)
    place = SimpleNamespace(snapshot=SimpleNamespace(config=config, agents=("ADMIN",)))
    monkeypatch.setattr(cluster_options, "cluster_of", lambda _home: place)
    monkeypatch.setattr(memory, "ask", lambda *_words: found)
    assert cli.run(["memory", "stats", "--home", str(tmp_path)]) == exit_codes.OK
    assert said in capsys.readouterr().out


def test_how_memory_is_switched_on_depends_on_what_is_missing(monkeypatch, tmp_path):
    """A section that is missing is restored whole: one switch alone would be no valid configuration."""
    home = home_of(tmp_path)
    for section, said in ((None, 'remove `"ho3": null`'), (SimpleNamespace(), "set ho3.enabled to true")):
        config = SimpleNamespace(memory=None, ho3=section)
        place = SimpleNamespace(home=home, snapshot=SimpleNamespace(config=config))
        with pytest.raises(CommandError) as caught:
            memory._demand_memory(place)
        assert said in caught.value.hint and f"hobus init admin_config.json --home {tmp_path}" in caught.value.hint
    home.config.mkdir()
    (home.config / "admin_config.json").write_text("{}")
    with pytest.raises(CommandError) as caught:
        memory._demand_memory(place)
    assert "hobus init" not in caught.value.hint
