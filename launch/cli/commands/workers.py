"""`hobus workers`: workers on an engine that starts processes elsewhere, asked for in its own words."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hobus.bus import disk
from hobus.launch.cli.commands.access import worker_token
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.client import cluster_of
from hobus.launch.cluster.endpoints import is_this_machine
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import CommandError, UsageFault, next_command, next_here, of_os_error
from hobus.launch.console.output import note, say
from hobus.launch.limits import ENGINE_TIMEOUT_S
from hobus.launch.worker import engines
from hobus.launch.worker.engines import TOKEN, Engine, EngineJob, EngineStep, Wanted

_TTL_S, _GONE_S = 30 * 86_400, 600  # as docs/deploy.md says for every engine


@click.group(cls=Family)
def workers() -> None:
    """Run workers on SLURM, Kubernetes or Ray, which start and restart them."""


@workers.command()
@click.argument("engine", type=click.Choice(engines.ENGINES))
@click.option("--count", type=click.IntRange(0, 1000), metavar="N", help="So many; 0: none, those at work drain.")
@click.option(
    "--min", "least", type=click.IntRange(0, 1000), metavar="N", help="kubernetes with KEDA: at least so many."
)
@click.option("--max", "most", type=click.IntRange(1, 1000), metavar="N", help="kubernetes with KEDA: at most so many.")
@click.option("--image", metavar="NAME[:TAG]", help="kubernetes: the image of deploy/container, in your registry.")
@click.option("--address", metavar="HOST[:PORT]", help="Where the workers reach this cluster, if not as listened at.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; no token is made, nothing is changed.")
@click.argument("options", nargs=-1, metavar="[-- OPTION]...", type=click.UNPROCESSED)
@with_json
def on(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    engine: Engine,
    count: int | None,
    least: int | None,
    most: int | None,
    image: str | None,
    address: str | None,
    dry_run: bool,
    options: tuple[str, ...],
) -> Output:
    """Have so many workers of this cluster on ENGINE: slurm, kubernetes or ray.

    Those that are there count. The token that they join with is made here, for 30 days; HOBUS_JOIN_TOKEN is taken
    instead where it is set. What follows `--` are options for sbatch: -- --partition=long.
    """
    wanted = Wanted(count, least, most)
    _demand(engine, wanted, image, options)
    if not dry_run:
        _demand_commands(engine)
    given = os.environ.get("HOBUS_JOIN_TOKEN", "")
    if not given and not wanted.is_none:
        _demand_reachable(home, engine, address)
    token_file = Path.home() / f".{_name_of(home)}.token"
    steps = _steps(engine, wanted, home=home, image=image or "", token_file=token_file, options=options)
    # Of SLURM also where none is missing: jobs that are requeued later join with what stands in its file then.
    makes_token = not wanted.is_none
    document = {
        "engine": engine, "count": count, "min": least, "max": most, "dry_run": dry_run,
        "token": None if not makes_token else {"uses": wanted.uses, "ttl_s": _TTL_S, "ephemeral_s": _GONE_S},
        "steps": [{"command": list(one.words), "stdin": one.stdin} for one in steps],
    }  # fmt: skip
    if dry_run:
        return Output(document, lambda: _show(steps, wanted if makes_token and not given else None))
    token = ""
    if makes_token:
        token = given or str(worker_token(home, _TTL_S, wanted.uses, _GONE_S, address)["token"])
    if engine == "slurm" and token:
        _write(token_file, token)
    said = [_run(one, token) for one in steps]

    def show() -> None:
        for text in said or [f"{count} workers are there already"]:
            say(text.rstrip())
        note(next_command("ps", home.root))

    return Output({**document, "said": said}, show)


def _demand(engine: Engine, wanted: Wanted, image: str | None, options: Sequence[str]) -> None:
    """Raises UsageFault for what this engine cannot be asked."""
    if fault := wanted.fault(engine):
        raise UsageFault(fault)
    if options and engine != "slurm":
        raise UsageFault(f"{options[0][:60]}: options of the engine's own are passed on to sbatch alone")
    if engine == "kubernetes" and not image and not wanted.is_none:
        hint = "build deploy/container/Containerfile, push it, then: --image registry.example.org/hobus:TAG"
        raise UsageFault("which image do the workers run? --image", hint=hint)


def _demand_commands(engine: Engine) -> None:
    """Raises CommandError where the engine's own commands are not there."""
    missing = [name for name in engines.NEEDS[engine] if shutil.which(name) is None]
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        missing = ["the Python package ray"]
    if missing:
        raise CommandError(f"{', '.join(missing)}: not here, so nobody asked for workers", hint=engines.MENDS[engine])


def _demand_reachable(home: Home, engine: Engine, address: str | None) -> None:
    """Raises CommandError for a cluster that listens nowhere, or where no pod could reach it."""
    cluster_of(home)
    bound = address or home.bound()
    if not bound:
        raise UsageFault(
            "this cluster listens nowhere, so that no worker elsewhere could join: it has to be started anew",
            hint=next_here("up --listen HOST:PORT"),
        )
    if engine == "kubernetes" and is_this_machine(bound):
        hint = "hobus up --listen with an address that pods reach, or --address HOST[:PORT] where one leads here"
        raise UsageFault(f"{bound} is this machine alone: no pod could reach it", hint=hint)


def _name_of(home: Home) -> str:
    """Of this cluster's jobs, so that those of another one are not counted."""
    return f"hobus-worker-{hashlib.sha256(str(home.root).encode()).hexdigest()[:8]}"


def _steps(  # noqa: PLR0913 - what an engine is told
    engine: Engine, wanted: Wanted, *, home: Home, image: str, token_file: Path, options: Sequence[str]
) -> list[EngineStep]:
    if engine == "kubernetes":
        return engines.kubernetes(wanted, image=image)
    count = wanted.count or 0
    if engine == "ray":
        return engines.ray(count, python=sys.executable)
    jobs: list[EngineJob] = []
    if shutil.which("squeue") is not None:
        jobs = engines.jobs_in(_run(engines.slurm_question(_name_of(home))))
    return engines.slurm(count, jobs, name=_name_of(home), token_file=token_file, options=options)


def _write(token_file: Path, token: str) -> None:
    """Raises CommandError."""
    try:
        disk.write_private(token_file, f"{token}\n".encode())
    except OSError as error:
        raise of_os_error(error, doing="the token cannot be written, so nothing was submitted") from error


def _run(step: EngineStep, token: str = "") -> str:
    """What the engine said. Raises CommandError where it did not take it."""
    environ = {name: value.replace(TOKEN, token) for name, value in step.environ}
    told = step.stdin.replace(TOKEN, token)
    try:
        done = subprocess.run(  # noqa: S603 - the engine's own command, without a shell
            list(step.words), input=told, env={**os.environ, **environ}, capture_output=True, text=True, check=False,
            timeout=ENGINE_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{step.words[0]}: {type(error).__name__}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace(token or TOKEN, TOKEN)[-2000:]
        raise CommandError(f"{step.words[0]} ended with {done.returncode}: {said}")
    return done.stdout


def _show(steps: Sequence[EngineStep], made_for: Wanted | None) -> None:
    if made_for is not None:
        say(f"# a token for {made_for.uses} workers at once, good for 30 days, their keys for 10 minutes without them")
    for one in steps:
        environ = [f"{name}={value}" for name, value in one.environ]
        say(" ".join([*environ, *one.words]) + (f" <<'END'\n{one.stdin}END" if one.stdin else ""))
    if not steps:
        say("# nothing: so many are there")
