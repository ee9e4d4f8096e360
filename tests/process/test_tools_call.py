"""`hobus tools call`: one tool as an order of a real cluster, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cluster import Cluster, eventually
from hobus.launch.console import exit_codes
from tests.process.test_package_tools import up

pytestmark = pytest.mark.process


def effects(directory: Path) -> list[str]:
    """Idempotency keys with which the paying tool ran."""
    path = directory / "effects"
    return path.read_text().split() if path.exists() else []


def test_a_tool_is_called_as_an_order_and_no_model_is_asked(cluster: Cluster, tmp_path: Path):
    """Result on stdout, the tool's own words on stderr; bad arguments are refused before, all else is in the record."""
    up(cluster, tmp_path)
    called = cluster("tools call", "double", '{"number": 21}')
    assert (called.code, called.out) == (0, "42\n"), called.err
    assert "double · " in called.err and " ms · SES-" in called.err

    broke = cluster("tools call", "blunder", '{"path": "the drawer"}')
    assert (broke.code, broke.out) == (exit_codes.FAILED, "")
    assert "  | looking at the drawer" in broke.err and "  | KeyError: 'the drawer'" in broke.err
    assert "error: tool_failed: the tool broke: KeyError" in broke.err
    assert (
        "Traceback (most recent call last):\n" in broke.err
        and "hobus" not in broke.err.split("traceback by")[1].split("KeyError")[0]
    )

    told = cluster("tools call", "blunder", '{"path": "x"}', "--json")
    assert told.code == exit_codes.FAILED
    document = told.json
    assert (document["ok"], document["code"], document["value"]) == (False, "tool_failed", None)
    assert document["message"].startswith("tool_failed: the tool broke: KeyError")
    assert document["printed"].startswith("looking at x\n") and document["tool_ms"] >= 0

    assert cluster("tools call", "double", "-", stdin=b'{"number": 2}').out == "4\n"
    bound = cluster.place.snapshot.config.tools.output_max_bytes
    for times, is_cut in ((bound - 2, False), (bound - 1, True)):
        long = cluster("tools call", "repeat", json.dumps({"times": times}))
        assert len(long.out) == bound + 1 - 2 * (not is_cut), long.err
        assert (f"the value is cut: it has more than {bound} bytes (tools.output_max_bytes)" in long.err) == is_cut
        assert cluster("tools call", "repeat", json.dumps({"times": times}), "--json").json["truncated"] is is_cut
    for words, said in (
        (("duble", "{}"), "there is no tool duble; there are "),
        (("double", "21"), "the arguments are not a JSON object: 21"),
        (("double", '{"number": "x"}'), "the arguments do not fit double: $.number"),
        (("double", "{}"), "the arguments do not fit double: $"),
        (("double", '{"number": 1}', "--agent", "NOBODY"), "there is no agent NOBODY"),
        (("double", '{"number": 1}', "--timeout", "soon"), "soon"),
    ):
        refused = cluster("tools call", *words)
        assert refused.code == exit_codes.USAGE and said in refused.err, refused.err
        assert "Traceback" not in refused.err
    bad = cluster("tools call", "invite", '{"size": "small", "at": "tomorrow", "guest": {"name": "A"}}')
    assert bad.code == exit_codes.FAILED and "tool_invalid_args: at: Input should be a valid datetime" in bad.err

    assert cluster.entries("PROMPT_SENT") == []
    listed = lambda: [one["status"] for one in cluster("session list", "--json", "--all").json["sessions"]]  # noqa: E731
    eventually(lambda: listed() == ["closed"] * 9)  # the index is some tenths of a second behind
    assert len(cluster.entries("TOOL_STARTED")) == 9
    assert cluster.record_verdict() == "ok"
    assert cluster("session replay", document["session_id"]).code == 0


def test_a_call_never_runs_twice_and_waits_for_its_approval(cluster: Cluster, tmp_path: Path):
    """The same input id gets the same result; a tool with an approval is held, said, and runs once it may."""
    up(cluster, tmp_path, tools__approval=["pay"])
    (tmp_path / "quick").touch()
    words = ("pay", json.dumps({"directory": str(tmp_path)}), "--input-id", "in-1")
    waiting = cluster.begin("tools call", *words)
    held = eventually(lambda: [one for one in cluster("session list", "--json").json["sessions"] if one["held_calls"]])
    assert effects(tmp_path) == []
    short = cluster("tools call", *words, "--timeout", "2s")
    assert short.code == exit_codes.UNREACHABLE and "--input-id in-1" in short.err
    cluster("session approve", held[0]["session_id"])
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, b"done\n"), err
    assert b"waits for your approval" in err
    again = cluster("tools call", *words)
    assert (again.code, again.out) == (0, "done\n"), again.err
    assert len(effects(tmp_path)) == 1

    refused = cluster.begin("tools call", *words[:2])
    held = eventually(lambda: [one for one in cluster("session list", "--json").json["sessions"] if one["held_calls"]])
    cluster("session deny", held[0]["session_id"], "--reason", "not today")
    out, err = refused.communicate(timeout=60)
    assert (refused.returncode, out) == (exit_codes.REFUSED, b"") and b"not today" in err

    left = cluster("tools call", *words[:2], "--timeout", "1s")
    assert left.code == exit_codes.UNREACHABLE, left.err
    held = eventually(lambda: [one for one in cluster("session list", "--json").json["sessions"] if one["held_calls"]])
    cluster("session deny", held[0]["session_id"], held[0]["held_calls"][0]["call_id"])
    eventually(lambda: not cluster("session list", "--json").json["sessions"])
    assert len(effects(tmp_path)) == 1
    assert cluster.record_verdict() == "ok"
