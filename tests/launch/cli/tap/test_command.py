"""`hobus tap` of a capture: the two ways to ask for JSON are one."""

from __future__ import annotations

import json

from hobus.launch.cli import main as cli
from hobus.launch.cli.tap.capture import CaptureWriter
from hobus.launch.console import exit_codes
from tests.launch.cli.tap.batches import batch


def test_json_is_the_form_with_a_document_per_line(tmp_path, capsys):
    """As every listing has it; asked for beside a table it is a mistake."""
    writer = CaptureWriter(tmp_path / "a.tap", {"filter": []}, replace=False)
    one = batch([1, 2, 3])
    writer.batch(one, one.records)
    writer.close([])
    said = []
    for words in (["--json"], ["-f", "jsonl"], ["--json", "-f", "jsonl"]):
        assert cli.run(["tap", "-r", str(tmp_path / "a.tap"), *words]) == exit_codes.OK
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert [json.loads(line)["sequence"] for line in said[0].splitlines()] == [1, 2, 3]
    assert cli.run(["tap", "-r", str(tmp_path / "a.tap"), "--json", "-f", "table"]) == exit_codes.USAGE
