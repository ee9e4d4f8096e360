"""Partners as processes of their own, for the length of a test module: where each is, what it offers, what it counted.

Skips where one is not installed, with the command that installs it. All on loopback, at ports that are free.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.partners.install import COMMAND, PLACE, STRICT_KEY, STRICT_MODEL

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KINDS = ("openai", "anthropic")
START_S = 240.0
"""A proxy of a hundred packages takes ten seconds to load on a quiet machine, and minutes on a busy one."""


@dataclass(frozen=True)
class Counted:
    """What a partner says that it did."""

    calls: int | None
    """None where it does not count them."""
    input_tokens: int
    output_tokens: int


@dataclass
class Partner:
    """One that runs."""

    name: str
    url: str
    key: str = field(repr=False)
    models: dict[str, str]
    """Kind -> a model that it offers there."""
    counted: Callable[[], Counted]
    process: subprocess.Popen[bytes]
    calls_tools: bool = True
    """A model of random weights does not."""

    def base_url(self, kind: str) -> str:
        """As an instance of that kind is configured."""
        return f"{self.url}/v1" if kind == "openai" else self.url


@contextmanager
def started(name: str, directory: Path) -> Generator[Partner]:
    """The partner of this name, ended with the block."""
    with ExitStack() as stack:
        yield _STARTS[name](stack, directory)


def read(url: str, key: str = "") -> str:
    """What it answers there."""
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"} if key else {})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        return answer.read().decode()


def strict(stack: ExitStack, directory: Path) -> Partner:
    """Our own."""
    process, url = _running(stack, [sys.executable, "-m", "tests.partners.strict_provider"], directory / "strict.log")

    def counted() -> Counted:
        value = json.loads(read(f"{url}/counters"))
        assert value.get("refused", 0) == 0, f"it refused what it was sent: {read(f'{url}/refusals')}"
        return Counted(value.get("calls", 0), value.get("input_tokens", 0), value.get("output_tokens", 0))

    return Partner("strict", url, STRICT_KEY, dict.fromkeys(KINDS, STRICT_MODEL), counted, process)


def aimock(stack: ExitStack, directory: Path) -> Partner:
    """npm's; it counts by its journal, where each answer stands with the fixture that it came from."""
    node = shutil.which("node")
    script = _installed("aimock", "node_modules/@copilotkit/aimock/dist/cli.js")
    if node is None:
        pytest.skip("no node on this machine: aimock needs it")
    key = "sk-aimock-77aa11bb22cc"
    words = [node, str(script), "-p", "0", "-f", str(HERE / "aimock.json"), "--strict", "--journal-max", "0"]
    process, url = _running(stack, words, directory / "aimock.log", AIMOCK_API_KEYS=key)

    def counted() -> Counted:
        journal = json.loads(read(f"{url}/__aimock/journal", key))
        asked = [one["response"] for one in journal if one["method"] == "POST"]
        assert all(one["status"] == 200 for one in asked), asked
        usages = [one["fixture"]["response"]["usage"] for one in asked]
        return Counted(
            len(usages), sum(one["prompt_tokens"] for one in usages), sum(one["completion_tokens"] for one in usages)
        )

    models = {"openai": "gpt-4o", "anthropic": "claude-3-5-sonnet-20241022"}
    return Partner("aimock", url, key, models, counted, process)


def litellm(stack: ExitStack, directory: Path) -> Partner:
    """The proxy before the strict provider, which counts for it what really reached a provider."""
    program = _installed("litellm", "bin/litellm")
    behind = strict(stack, directory)
    key = "sk-litellm-5f6a7b8c9d"
    models = {kind: f"{STRICT_MODEL}-{kind}" for kind in KINDS}
    config = {
        "model_list": [
            {"model_name": models[kind], "litellm_params": {"model": f"{kind}/{STRICT_MODEL}", "api_base": behind.base_url(kind), "api_key": behind.key}}
            for kind in KINDS
        ],
        "general_settings": {"master_key": key},
        "litellm_settings": {"num_retries": 0, "telemetry": False},
    }  # fmt: skip
    (directory / "litellm.yaml").write_text(json.dumps(config))  # which is YAML, too
    port = _free_port()
    words = [str(program), "--config", str(directory / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    # Else it asks the network for its prices as it is imported.
    process = _begun(stack, words, directory / "litellm.log", LITELLM_LOCAL_MODEL_COST_MAP="True")
    url = f"http://127.0.0.1:{port}"
    _until(process, directory / "litellm.log", lambda: bool(read(f"{url}/health/liveliness")))
    return Partner("litellm", url, key, models, behind.counted, process)


def llama(stack: ExitStack, directory: Path) -> Partner:
    """llama.cpp with random weights; it counts tokens, and those that it had in its cache apart."""
    python = _installed("llama", "bin/python")
    key = "sk-llama-0a9b8c7d6e"
    process, url = _running(
        stack, [str(python), str(HERE / "tiny_llama.py"), str(directory), key], directory / "llama.log"
    )

    def counted() -> Counted:
        said = dict(re.findall(r"^llamacpp:(\w+) (\S+)$", read(f"{url}/metrics", key), re.MULTILINE))
        asked = float(said["prompt_tokens_total"]) + float(said["prompt_tokens_cached_total"])
        return Counted(None, round(asked), round(float(said["tokens_predicted_total"])))

    return Partner("llama", url, key, dict.fromkeys(KINDS, "tiny"), counted, process, calls_tools=False)


_STARTS = {"strict": strict, "aimock": aimock, "litellm": litellm, "llama": llama}
NAMES = tuple(_STARTS)


def _installed(name: str, path: str) -> Path:
    found = PLACE / name / path
    if not found.exists():
        pytest.skip(f"{name} is not at {PLACE / name}; `{COMMAND} {name}` installs it")
    return found


def _begun(stack: ExitStack, words: list[str], log: Path, **env: str) -> subprocess.Popen[bytes]:
    # Compiled once, a proxy of a hundred packages starts four times as fast.
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | env
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT, env=given)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _running(stack: ExitStack, words: list[str], log: Path, **env: str) -> tuple[subprocess.Popen[bytes], str]:
    """The process, and the address that it says."""
    process = _begun(stack, words, log, **env)

    def said() -> str:
        return next(
            iter(re.findall(r"^.*(http://127\.0\.0\.1:\d+)\s*$", log.read_text(errors="replace"), re.MULTILINE)), ""
        )

    _until(process, log, lambda: bool(said()))
    return process, said()


def _until(process: subprocess.Popen[bytes], log: Path, is_up: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            if is_up():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not up within {START_S} s: {log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    """One that nobody has just now, for a partner that chooses none itself."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
