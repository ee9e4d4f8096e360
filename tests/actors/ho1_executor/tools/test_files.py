"""Images and other files that a Python tool returns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hobus import File, Image
from hobus.actors.ho1_executor.tools.definition import Bounds, write_value
from hobus.actors.ho1_executor.tools.entry_points import load
from hobus.actors.ho1_executor.tools.protocol import list_result_fields, pack_frame, read_result, unpack_frame

PNG = b"\x89PNG\r\n\x1a\nrest"
BOUNDS = Bounds(output=1000, said=1000, files=20)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Image(data=PNG), '"[image image.png, image/png, 12 bytes]"'),
        (
            ["Sales:", Image(data=PNG, name="sales.png"), {"a": 1}],
            '["Sales:", "[image sales.png, image/png, 12 bytes]", {"a": 1}]',
        ),
        ({"table": File(data=b"1,2", name="t.csv")}, '{"table": "[file t.csv, text/csv, 3 bytes]"}'),
        (File(data=b"?"), '"[file file.bin, application/octet-stream, 1 bytes]"'),
        (File(data=b"?", media_type="a/b", name="x\ny"), '"[file xy, a/b, 1 bytes]"'),
    ],
)
def test_a_file_is_told_in_a_sentence_and_kept(value: Any, text: str) -> None:
    result = write_value(value, BOUNDS)
    assert (result.ok, result.text, len(result.files)) == (True, text, 1)
    assert read_result(unpack_frame(pack_frame("result", **list_result_fields(1, result))[4:])) == result


def test_what_does_not_fit_is_told_and_not_kept() -> None:
    result = write_value([Image(data=PNG), Image(data=PNG)], BOUNDS)
    assert "[image image.png, image/png, 12 bytes, not kept: at most 20 bytes of files are]" in result.text
    assert [data for _name, _type, data in result.files] == [PNG]
    many = write_value([File(data=b"") for _ in range(17)], BOUNDS)
    assert len(many.files) == 16
    assert many.text.endswith('not kept: a call brings at most 16 files]"]')


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "chart.webp"
    path.write_bytes(b"RIFF0000WEBPrest")
    found = Image(path)
    assert (found.name, found.media_type, found.data) == ("chart.webp", "image/webp", b"RIFF0000WEBPrest")
    with pytest.raises(FileNotFoundError):
        File(tmp_path / "nothing")


def test_what_else_stands_in_the_value_is_json() -> None:
    assert write_value(["a", 1], BOUNDS).text == '["a", 1]'
    told = write_value([Image(data=PNG), {1}], BOUNDS, "draw").text
    assert told.startswith("draw returned a list that is no JSON; return texts")
    assert told.endswith("(Object of type set is not JSON serializable)")


def test_a_value_that_holds_itself_is_told_as_no_json(tmp_path: Path) -> None:
    file = tmp_path / "holds_itself.py"
    file.write_text(
        "from hobus import tool\n@tool\ndef it() -> object:\n    'It.'\n    a = []\n    a.append(a)\n    return a"
    )
    host: Any = None  # it asks for nothing
    tool = load(f"it = {file}:it")
    told = write_value(asyncio.run(tool.run({}, host)), BOUNDS, "it", tool.place)
    assert told.text.startswith("it returned a list that is no JSON; return texts")
    assert told.traceback == f"{file}:2: {told.text}"  # people see where it stands, models do not
