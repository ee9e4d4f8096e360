"""What `hobus session` takes and says before anybody is asked."""

from __future__ import annotations

import pytest

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and all that was written."""
    code = cli.run(["session", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


@pytest.mark.parametrize(
    "words",
    [
        ("steer", "SES-12345678", "x"), ("followup", "SES-12345678", "x"), ("pause", "1234"), ("resume", "1234"),
        ("cancel", "1234"), ("approve", "1234"), ("deny", "1234"), ("end", "1234"),
    ],
)  # fmt: skip
def test_without_a_cluster_nothing_can_be_steered(tmp_path, capsys, words):
    """Exit code 4, and how to start one."""
    code, text = said(capsys, words[0], "--home", str(tmp_path), *words[1:])
    assert code == exit_codes.UNREACHABLE and "hobus up" in text


@pytest.mark.parametrize("name", ["list", "show", "replay"])
def test_without_a_record_there_is_nothing_to_show(tmp_path, capsys, name):
    """Exit code 2, and how to begin."""
    words = [] if name == "list" else ["SES-12345678"]
    code, text = said(capsys, name, "--home", str(tmp_path), *words)
    assert code == exit_codes.USAGE and "no record" in text and "hobus up" in text


@pytest.mark.parametrize(
    "words",
    [
        ("steer", "1234"),
        ("pause",),
        ("pause", "1234", "--epoch", "-1"),
        ("pause", "1234", "--epoch", str(2**64)),
        ("nonsense",),
    ],
)
def test_mistakes_are_said_as_usage(capsys, words):
    """What is missing or is none."""
    assert said(capsys, *words)[0] == exit_codes.USAGE


def test_help_tells_the_life_of_a_run_from_the_table(capsys):
    """Every state of it, and where the diagram is."""
    text = said(capsys, "--help")[1]
    assert all(state in text for state in TRANSITIONS) and "docs/sessions.md" in text
