"""`hobus ledger` on files alone: what it says and the exit code it ends with."""

import asyncio
import json

import pytest

from hobus.bus.disk import RealDisk
from hobus.bus.limits import HITS_MAX
from hobus.bus.messages.ledger import Provenance
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes
from hobus.ledger_service.segment import name_segment
from tests.ledger_service.rig import SESSION, append, ledger_config, running, take_over, write


async def _record(home, entries: int = 3) -> None:
    async with running(RealDisk(home / "ledger"), ledger_config()) as ledger:
        for number in range(entries):
            await ledger.write(write(f"e{number}"))


async def test_verify_says_what_the_index_was_worth_and_what_the_next_start_sets_aside(tmp_path, capsys):
    """In words and as JSON; a stray byte behind the last batch is no fault."""
    await _record(tmp_path)
    segment = tmp_path / "ledger" / "segments" / name_segment(0)
    data = bytearray(segment.read_bytes())
    data[-1] = 7
    segment.write_bytes(data)
    assert cli.run(["ledger", "verify", "--home", str(tmp_path)]) == exit_codes.OK
    said = capsys.readouterr().out
    assert "index: agrees" in said and "tail: torn (" in said and "the next start sets them aside" in said
    assert cli.run(["ledger", "verify", "--json", "--home", str(tmp_path)]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["index"] == "agrees"


async def test_verify_of_a_cut_record_names_file_byte_and_entries(tmp_path, capsys):
    await _record(tmp_path)
    segment = tmp_path / "ledger" / "segments" / name_segment(0)
    end = segment.read_bytes().find(b"HOBUSLG1", 8)
    segment.write_bytes(segment.read_bytes()[:end])
    assert cli.run(["ledger", "verify", "--home", str(tmp_path)]) == exit_codes.INTEGRITY
    said = " ".join(capsys.readouterr().err.split())
    assert f"{segment.name}, byte {end}, entry 1" in said and "entries 1..2 were acknowledged and are gone" in said
    segment.unlink()
    assert cli.run(["ledger", "verify", "--json", "--home", str(tmp_path)]) == exit_codes.INTEGRITY
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["index"], document["fault"]["byte"]) == (False, "ahead", 0)


async def test_what_a_limit_leaves_out_is_said(tmp_path, capsys):
    await _record(tmp_path)
    for limit, has_more in (("2", True), ("3", False)):
        assert cli.run(["ledger", "show", "--limit", limit, "--home", str(tmp_path)]) == exit_codes.OK
        assert ("older entries are left out: --limit 4" in capsys.readouterr().err) is has_more
        assert cli.run(["ledger", "show", "--limit", limit, "--json", "--home", str(tmp_path)]) == exit_codes.OK
        document = json.loads(capsys.readouterr().out)
        assert (len(document["entries"]), document["more"]) == (int(limit), has_more)


async def test_a_filter_is_applied_before_the_limit_and_together_with_the_options(tmp_path, capsys):
    """The last so many of what is meant, not what is meant of the last so many."""
    await _record(tmp_path, entries=9)
    home = ("--home", str(tmp_path), "--json", "--limit", "2")
    assert cli.run(["ledger", "show", *home, "id=e? & sequence<6", "--stream", "ho1m"]) == exit_codes.OK
    found = json.loads(capsys.readouterr().out)["entries"]
    assert [entry["submission_id"] for entry in found] == ["e4", "e5"]
    assert cli.run(["ledger", "show", *home, "stream=prompts", "--stream", "ho1m"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["entries"] == []
    assert cli.run(["ledger", "show", *home[:2], "stream=x & coulour=red"]) == exit_codes.USAGE
    assert "  stream=x & coulour=red\n             ^\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--stream", "promts"], exit_codes.USAGE, "no such stream; there are governance"),
        (["--stream", "session"], exit_codes.USAGE, "session/<id>"),
        (["--type", "PROMPT_SEND"], exit_codes.USAGE, "PROMPT_SENT"),
        (["--session", "SES-00000000"], exit_codes.USAGE, "no such session"),
        (["--type", "PROMPT_SENT"], exit_codes.OK, ""),
        (["--stream", "prompts"], exit_codes.OK, ""),
    ],
)
async def test_what_does_not_exist_is_told_from_what_has_no_entry(tmp_path, capsys, words, code, said):
    """A misspelt name is no empty listing, in JSON neither."""
    await _record(tmp_path, entries=0)
    assert cli.run(["ledger", "show", *words, "--home", str(tmp_path)]) == code
    shown = capsys.readouterr()
    assert said in shown.err and bool(said) == bool(shown.err)
    assert bool(shown.out) == (code == exit_codes.OK)
    assert cli.run(["ledger", "show", "--json", *words, "--home", str(tmp_path)]) == code
    shown = capsys.readouterr()
    if code == exit_codes.OK:
        assert json.loads(shown.out)["entries"] == []
    else:
        assert not shown.out and said in json.loads(shown.err)["error"]["message"]
        assert cli.run(["ledger", "tail", *words, "--home", str(tmp_path)]) == code


async def _said(home, *texts):
    about = Provenance(agent_id="ADMIN", session_id=SESSION.removeprefix("session/"))
    first = take_over(1, "")
    entries, prev = [first], first.submission_id
    for number, text in enumerate(texts):
        name = f"RunRequested:{number}"
        bodies = [b"\x90", text]
        entries.append(append(name, prev, 1, event_type="RunRequested", provenance=about, bodies=bodies))
        prev = name
    async with running(RealDisk(home / "ledger"), ledger_config()) as ledger:
        await ledger.write(*entries)


def test_search_without_a_cluster_reads_the_files(tmp_path, capsys):
    """The best answer first, one line per text, escapes harmless; as JSON with scores and places."""
    asyncio.run(
        _said(tmp_path, b"a lamp\x1b[31m in\nthe attic", b"the weather", b"lamp and lamp", b"x " * 500 + b"lamp")
    )
    where = ["--home", str(tmp_path)]
    assert cli.run(["ledger", "search", "LAMP", *where]) == exit_codes.OK
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].split()[0] == "SEQ" and lines[1].startswith("#3") and len(lines) == 4
    assert "\x1b" not in said.out and "in the attic" in said.out and "…x x" in lines[3]
    assert "no cluster runs" in said.err
    assert cli.run(["ledger", "search", "lamp", "attic", "--json", *where]) == exit_codes.OK
    found = json.loads(capsys.readouterr().out)
    assert found["hits"][0]["sequence"] == 1 and found["words"] == ["attic", "lamp"]
    assert found["hits"][0]["ref"] == "RunRequested:0/1" and found["reached"] == found["head"] == 4


def test_search_says_when_more_limit_brings_no_more(tmp_path, capsys):
    """A larger limit is the hint until the ledger gives no more at once; then it is to ask for less."""
    most = HITS_MAX
    asyncio.run(_said(tmp_path, *(b"a lamp" for _ in range(most + 1))))
    where = ["ledger", "search", "lamp", "--home", str(tmp_path)]
    assert cli.run([*where, "--limit", str(most)]) == exit_codes.OK
    assert f"--limit {most * 2}" in capsys.readouterr().err
    assert cli.run([*where, "--limit", str(most * 2)]) == exit_codes.OK
    told = capsys.readouterr().err
    assert f"these {most} are as many" in told and "--session" in told and "--limit" not in told


@pytest.mark.parametrize("agent", ["\udcff", "A\nB", "ÄGENT"])
def test_search_of_what_no_agent_can_be_called_is_a_mistake(tmp_path, capsys, agent):
    assert cli.run(["ledger", "search", "lamp", "--agent", agent, "--home", str(tmp_path)]) == exit_codes.USAGE
    assert "there is no such agent\n  next: hobus agent list" in capsys.readouterr().err


@pytest.mark.parametrize(("agent", "code"), [("NOPE", exit_codes.USAGE), ("ADMIN", exit_codes.OK)])
def test_search_of_an_agent_that_there_is_not_is_a_mistake(tmp_path, capsys, agent, code):
    """As everywhere, where nothing is found; one that is gone may have left texts, which are."""
    asyncio.run(_record(tmp_path))
    assert cli.run(["ledger", "search", "lamp", "--agent", agent, "--home", str(tmp_path)]) == code
    told = capsys.readouterr().err
    assert (f"there is no agent {agent}\n  next: hobus agent list" in told) == (code == exit_codes.USAGE)


def test_search_narrows_and_says_what_it_does_not_know(tmp_path, capsys):
    """By session, agent, type, stream and time; a name that there is not is a usage fault with the ones that there are."""
    asyncio.run(_said(tmp_path, b"a lamp", b"the lamp"))
    where = ["--json", "--home", str(tmp_path)]

    def count(*options):
        assert cli.run(["ledger", "search", "lamp", *options, *where]) == exit_codes.OK
        return len(json.loads(capsys.readouterr().out)["hits"])

    session = SESSION.removeprefix("session/")
    assert count() == count("--session", session) == count("--agent", "ADMIN") == 2
    assert count("--stream", "overlays") == count("--type", "HO3_OVERLAY") == 0
    assert count("--type", "RunRequested", "--type", "OrderEnded", "--stream", "session") == 2
    assert count("--limit", "1") == 1
    assert count("--since", "5m") == 0 and count("--since", "9000d") == 2
    for option, value, known in (("--type", "WO_FAILED", "RunRequested"), ("--stream", "nowhere", "overlays")):
        assert cli.run(["ledger", "search", "lamp", option, value, "--home", str(tmp_path)]) == exit_codes.USAGE
        assert known in capsys.readouterr().err
    assert cli.run(["ledger", "search", "--home", str(tmp_path)]) == exit_codes.USAGE
    capsys.readouterr()
    for words in ("***", "\udcff", "NEAR("):
        assert cli.run(["ledger", "search", words, "--home", str(tmp_path)]) == exit_codes.OK
        assert "nothing found" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.run(["ledger", "search", "lamp", "--home", str(tmp_path / "empty")]) == exit_codes.USAGE
    assert "there is no record in" in capsys.readouterr().err
