"""Which files a tool's code rests on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hobus.launch.cluster.tool_code import list_files


def written(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return directory


def names(files: object) -> set[str]:
    return {file.name for file in files if file.is_file()}


def test_what_a_file_imports_from_beside_it_belongs_to_it_however_far(tmp_path: Path) -> None:
    """Also in a function, in a circle, and in a package; what is installed or not there does not."""
    directory = written(
        tmp_path, app="import helper, json\nimport nowhere.at_all\n", helper="def f():\n    from pack.deep import x\n", other="",
    )  # fmt: skip
    written(tmp_path / "pack", __init__="", deep="import app\nx = 1\n", unused="import third\n")
    written(tmp_path, third="this is no Python")
    found = names(list_files(f"{directory}/app.py"))
    assert found == {"app.py", "helper.py", "__init__.py", "deep.py", "unused.py", "third.py"}
    assert names(list_files(f"{directory}/other.py")) == {"other.py"}
    assert list(list_files(f"{directory}/gone.py")) == [directory / "gone.py"]


def test_a_folder_is_walked_once_however_many_files_import_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program beside a large project: its time grows with the project's files, not with their square."""
    written(tmp_path, app="import pack\n")
    written(tmp_path / "pack", **{f"part{number}": "import pack\n" for number in range(20)})
    walked: list[Path] = []
    walk = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda folder, pattern: walked.append(folder) or walk(folder, pattern))
    assert len(names(list_files(f"{tmp_path}/app.py"))) == 21
    assert walked == [tmp_path / "pack"]


def test_beside_an_installed_module_lies_nothing_of_its_own(tmp_path: Path) -> None:
    directory = written(tmp_path / "site-packages", tools="import requests_like\n", requests_like="")
    assert names(list_files(f"{directory}/tools.py")) == {"tools.py"}


def test_a_package_s_helper_beside_it_belongs_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "clerk_tools", __init__="from clerk_helper import x\n")
    written(tmp_path, clerk_helper="x = 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert names(list_files("clerk_tools")) == {"__init__.py", "clerk_helper.py"}
