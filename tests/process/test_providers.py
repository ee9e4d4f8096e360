"""A real provider behind a whole cluster: through the official SDK, in the gateway alone, its key seen nowhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.process.mcp_servers import ROOT

pytestmark = pytest.mark.process


def test_no_process_that_is_forked_has_an_sdk_in_it():
    """What the zygote loads, the role that asks providers among it, imports none, nor what they bring."""
    code = (
        "import importlib, sys\n"
        "from hobus.launch.launcher.zygote import MAIN, ROLES\n"
        "for name in (MAIN, *(f'hobus.launch.process.roles.{role}' for role in ROLES)): importlib.import_module(name)\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'httpcore2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
