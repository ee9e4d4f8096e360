"""Installs the partners that nobody here wrote: `python -m tests.partners.install`, beside this environment.

Each has an environment of its own, since what they need conflicts. Nothing of them is downloaded by a test: one whose
partner is not there is skipped, with this command as the reason. Exit code 0 also where one could not be installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
PLACE = Path(sys.prefix) / "partners"
AIMOCK = "@copilotkit/aimock@1.43.0"
COMMAND = "python -m tests.partners.install"
STRICT_KEY, STRICT_MODEL = "sk-strict-4b1d7e90c2a6", "tiny"
"""What our own one takes and offers; here, since who starts it need not load the SDKs that it judges by."""


def aimock() -> list[list[str]]:
    """The mock provider of npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("there is no npm here")
    return [[npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(PLACE / "aimock"), AIMOCK]]


def litellm() -> list[list[str]]:
    """The proxy, as little of what it may need as starts it; all pinned, so that nothing has to be resolved."""
    return _environment("litellm")


def llama() -> list[list[str]]:
    """llama.cpp's server, built already, and what writes a model for it."""
    return _environment("llama")


def _environment(name: str) -> list[list[str]]:
    python = PLACE / name / "bin" / "python"
    wanted = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--only-binary",
        ":all:",
        "-r",
        str(HERE / f"{name}.txt"),
    ]
    return [
        [sys.executable, "-m", "venv", str(PLACE / name)],
        [str(python), "-m", "pip", "--disable-pip-version-check", *wanted],
    ]


PARTNERS = {"aimock": aimock, "litellm": litellm, "llama": llama}


def install(name: str) -> str:
    """What came of it, in a line."""
    began = time.monotonic()
    try:
        for command in PARTNERS[name]():
            subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(PLACE / name, ignore_errors=True)
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return f"{name}: not installed, its tests are skipped: {said[-1] if said else error}"
    return f"{name}: installed, {time.monotonic() - began:.0f} s"


def main() -> None:
    """Those that are named, else all, beside one another."""
    names = sys.argv[1:] or list(PARTNERS)
    PLACE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(names)) as pool:
        for line in pool.map(install, names):
            print(line, flush=True)  # noqa: T201 - what a command says


if __name__ == "__main__":
    main()
