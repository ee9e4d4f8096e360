"""A home whose record has three turns, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launch.cli.web.pages import Browser, recorded


@pytest.fixture(scope="session")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("console") / "home"
    recorded(root, ["what packages are installed?", "how many are there?", "list them again"])
    return root


@pytest.fixture
def browser(rested: Path) -> Browser:
    return Browser(rested)
