"""A home whose record has three turns, made once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jinja2
import pytest

from tests.launch.cli.web.pages import COMPILED, Browser, recorded


@pytest.fixture(autouse=True)
def templates_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja2, "Environment", partial(jinja2.Environment, bytecode_cache=COMPILED))


@pytest.fixture(scope="session")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("console") / "home"
    recorded(root, ["what packages are installed?", "how many are there?", "list them again"])
    return root


@pytest.fixture
def browser(rested: Path) -> Browser:
    return Browser(rested)
