"""Each program of examples/ runs as it stands and prints what its first lines say; nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.started_here import ROOT

pytestmark = pytest.mark.process

PRINTED = {
    "hello": "I am hobus's embedded offline model\n",
    "tools": 'forecast: city Paris, degrees 20.0.\nbook: "1 night in Paris is booked"\n',
    "output": "Ticket low\n",
    "web_stream": "['delta', 'result']\n",
    "mcp_tools": "library__find: Dune is on shelf 7\n",
    "approval_page": 'pay {&#x27;to&#x27;: &#x27;Dune &amp; Sons&#x27;}\npay: "paid Dune & Sons"\n',
    "memory": "Always answer in one line. active\n",
    "two_agents": "THOROUGH: Hello. Without tools I can only talk about this conversation.\n"
    "QUICK offline/offline-rules-1\nTHOROUGH second/offline-rules-1\n",
    "far_worker": "ho1/remote-1 joined\n",
    "evaluation": "2 of 2 passed\n",
}


def test_every_example_is_run() -> None:
    """And each says in its first lines what it shows and prints."""
    files = {path.stem: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    assert files.keys() == PRINTED.keys()
    assert [name for name, text in files.items() if not {"Shows:", "Prints:"} <= set(text[:700].split())] == []


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(name: str, tmp_path: Path) -> None:
    """Started in a directory of its own, on the offline model."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        cwd=tmp_path, env=os.environ | {"TMPDIR": str(temporary)}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (PRINTED[name], 0), done.stderr
    assert not list(temporary.iterdir())
