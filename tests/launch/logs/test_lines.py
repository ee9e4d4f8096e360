"""Lines of logs: read, chosen, shown."""

import json

from hobus.launch.logs.lines import LEVEL_COLOURS, as_json, make_actor_test, make_turn_test, read_line, render_line

SESSION = "1a2b3c4d-0000-4000-8000-000000000000"


def line(actor="ho1/1", at="2026-11-22T01:02:03.500000Z", **fields):
    record = {"event": "process_started", "level": "info", "actor": actor, "at": at, "pid": 7} | fields
    return read_line(json.dumps(record), actor="file", earlier_at=0.0)


def test_a_record_knows_who_and_when_and_anything_else_stays_text():
    """A traceback, a torn line or a number keeps the actor of its file and the time of the record before it."""
    read = line()
    assert (read.actor, read.level, read.record["pid"]) == ("ho1/1", "info", 7)
    assert read.at == 1795309323.5
    for text in ("Traceback (most recent call last):", '{"torn": ', "[1]", "7", "[" * 100_000):
        other = read_line(text, actor="ho2/1", earlier_at=5.0)
        assert (other.actor, other.at, other.record, other.level) == ("ho2/1", 5.0, {}, "")
        assert json.loads(as_json(other)) == {"actor": "ho2/1", "text": text}
    assert read_line('{"event": "x", "at": "never"}', actor="a", earlier_at=5.0).at == 5.0


def test_lines_are_chosen_by_actor_role_and_turn():
    """A role means all of its processes; a turn is found by any id that names it."""
    assert (
        make_actor_test(())(line()) and make_actor_test(("ho1",))(line()) and make_actor_test(("ho2", "ho1/1"))(line())
    )
    assert not make_actor_test(("ho1/2", "ho"))(line())
    one = line(trace=f"{SESSION}-2")
    assert (
        make_turn_test("SES-1a2b3c4d-2")(one)
        and make_turn_test(f"{SESSION}-2")(one)
        and make_turn_test("SES-1a2b3c4d")(one)
    )
    assert not make_turn_test("SES-1a2b3c4d-3")(one) and not make_turn_test("SES-ffffffff-2")(one)
    assert make_turn_test("SES-1a2b3c4d-2")(line(work_order=f"WO-{SESSION}-2.1.1"))
    assert not make_turn_test("SES-1a2b3c4d-2")(line())


def test_a_line_for_people_has_time_actor_event_and_the_rest():
    """Levels are coloured and named unless they are info; an exception stands below, indented."""

    def paint(text, colour):
        return f"<{colour}:{text}>" if colour in LEVEL_COLOURS.values() and not text.endswith(" ") else text

    assert (
        render_line(line(role="ho1", n=3), lambda at: "T", paint)
        == "T  ho1/1      <cyan:process_started>  role=ho1  n=3"
    )
    bad = render_line(line(level="error", exception="a\nb"), lambda at: "T", paint)
    assert bad == "T  ho1/1      <red:error process_started>\n    a\n    b"
    tool = render_line(line(printed="c\nd", exception="a"), lambda at: "T", paint)
    assert tool == "T  ho1/1      <cyan:process_started>\n    c\n    d\n    a"
    plain = read_line("Traceback", actor="launcher", earlier_at=0.0)
    assert render_line(plain, lambda at: "T", paint) == "T  launcher   Traceback"


def test_no_value_of_a_line_forges_another_line_or_commands_a_terminal():
    """What stands in a field, an event or a name stays in its line; what is no record is escaped."""
    forged = line(event="a\nb", actor="x\r\x1b[2J", said="one\n12:00:00.000  ledger/1   error gone\x9b31m", n=["\x1b"])
    told = render_line(forged, lambda at: "T", lambda text, _colour: text)
    assert told.splitlines() == [told] and not [char for char in told if not char.isprintable()]
    plain = read_line("\x1b]0;owned\x07", actor="ho1/1", earlier_at=0.0)
    assert render_line(plain, lambda at: "T", lambda text, _colour: text) == "T  ho1/1      \\u001b]0;owned\\u0007"
