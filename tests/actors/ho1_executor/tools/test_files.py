"""Images and other files that a Python tool returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hobus import File, Image
from hobus.actors.ho1_executor.tools.definition import Bounds, written
from hobus.actors.ho1_executor.tools.protocol import pack_frame, result_fields, result_in, unpack_frame

PNG = b"\x89PNG\r\n\x1a\nrest"
BOUNDS = Bounds(output=1000, said=1000, files=20)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Image(data=PNG), "[image image.png, image/png, 12 bytes]"),
        (
            ["Sales:", Image(data=PNG, name="sales.png"), {"a": 1}],
            'Sales:\n[image sales.png, image/png, 12 bytes]\n{"a": 1}',
        ),
        (File(data=b"1,2", name="t.csv"), "[file t.csv, text/csv, 3 bytes]"),
        (File(data=b"?"), "[file file.bin, application/octet-stream, 1 bytes]"),
        (File(data=b"?", media_type="a/b", name="x\ny"), "[file xy, a/b, 1 bytes]"),
    ],
)
def test_a_file_is_told_in_a_sentence_and_kept(value: Any, text: str) -> None:
    """Alone or in a list beside texts and JSON, and so it leaves its process."""
    result = written(value, BOUNDS)
    assert (result.ok, result.text, len(result.files)) == (True, text, 1)
    assert result_in(unpack_frame(pack_frame("result", **result_fields(1, result))[4:])) == result


def test_what_does_not_fit_is_told_and_not_kept() -> None:
    """By its bytes together with those before it, and by number."""
    result = written([Image(data=PNG), Image(data=PNG)], BOUNDS)
    assert (
        result.text.splitlines()[1] == "[image image.png, image/png, 12 bytes, not kept: tools.files_max_bytes is 20]"
    )
    assert [data for _name, _type, data in result.files] == [PNG]
    many = written([File(data=b"") for _ in range(17)], BOUNDS)
    assert len(many.files) == 16
    assert many.text.endswith("not kept: a call brings at most 16 files]")


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    """Its name is the path's; one of path and bytes is given."""
    path = tmp_path / "chart.webp"
    path.write_bytes(b"RIFF0000WEBPrest")
    found = Image(path)
    assert (found.name, found.media_type, found.data) == ("chart.webp", "image/webp", b"RIFF0000WEBPrest")
    with pytest.raises(ValueError, match="a path or data="):
        File()
    with pytest.raises(FileNotFoundError):
        File(tmp_path / "nothing")


def test_a_list_without_files_is_json_as_before() -> None:
    """Nothing changes for what brings none."""
    assert written(["a", 1], BOUNDS).text == '["a", 1]'
