"""What a failed process said last."""

import json

from hobus.launch.cluster.home import home_of, prepare
from hobus.launch.logs.tail import of_incarnation


def said(instance, event):
    """One line of a log."""
    record = {"event": event, "level": "error", "actor": "ho1/1", "instance": instance, "at": "2026-01-01T00:00:00Z"}
    return json.dumps(record) + "\n"


def test_only_this_incarnations_lines_in_the_form_for_people(tmp_path):
    """Lines of earlier ones are left out, a traceback stays, and no line is JSON."""
    home = home_of(tmp_path)
    prepare(home)
    log = said("ho1/1@a", "earlier") + "Traceback of a\n" + said("ho1/1@b", "later") + "ValueError: b\n"
    home.log("ho1/1").write_text(log)
    first, second = of_incarnation(home.log("ho1/1"), "ho1/1", "ho1/1@b", 20)
    assert "error later" in first and second.endswith("ValueError: b")
    assert "{" not in first + second and "earlier" not in first + second
    assert of_incarnation(home.log("ho1/2"), "ho1/2", "ho1/2@a", 20) == []
