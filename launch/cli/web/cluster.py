"""The screen of the cluster: its processes, queues, breakers and budgets; what an operator tells its launcher."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Queues, ReadQueues
from hobus.bus.messages.gateway import Breakers, Budget, ReadBreakers, ReadBudget
from hobus.launch.cli.commands import ps
from hobus.launch.cli.commands.access import read_keys
from hobus.launch.cli.commands.operating import explain_absence
from hobus.launch.cli.web.app import Asked, PageAnswer, PageRequest
from hobus.launch.cli.web.source import R
from hobus.launch.cluster.run_file import find_running
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.launcher.control import ELSEWHERE, LeaveCommand, ScaleCommand
from hobus.launch.launcher.operate import find_row, require_room_for, send_command
from hobus.launch.launcher.options import SCALABLE, parse_scale

_LEAVES = {"restart": "start", "drain": "stay"}


async def show_cluster(look: PageRequest) -> PageAnswer:
    """`hobus ps`, `budget` and `breaker` beside each other."""
    source = look.source
    run = source.run()
    answer = await source.peers()
    rows = await run_in_threadpool(ps.make_rows, source.home, run, source.clock.now(), answer)
    queues, budget, breakers = None, None, None
    if answer is not None:  # else nobody is reached: all of it goes through the broker
        queues, budget, breakers = await asyncio.gather(
            _ask_service(look, "broker", ReadQueues(), Queues), _ask_service(look, "gateway", ReadBudget(), Budget),
            _ask_service(look, "gateway", ReadBreakers(), Breakers),
        )  # fmt: skip
    slots = {} if answer is None else {one.instance: one.slots for one in answer.peers}
    document = ps.make_document(source.home, run, answer, rows) | {
        "queues": None if queues is None else queues.queues, "budget": budget, "slots": slots,
        "breakers": None if breakers is None else breakers.breakers, "keys": read_keys(source.home),
    }  # fmt: skip
    shown = {
        "run": run, "rows": rows, "slots": slots, "answers": answer is not None, "queues": queues, "budget": budget,
        "keys": document["keys"], "told": [] if answer is None else ps.list_listening(answer),
        "http": source.home.bound(http=True), "breakers": breakers, "own": ps.make_own_lines(run, source.clock.now()),
        "scalable": SCALABLE,
        "counts": {role: sum(row.actor.startswith(f"{role}/") and not row.host for row in rows) for role in SCALABLE},
    }  # fmt: skip
    return PageAnswer("cluster.html", "Cluster", document, shown, live="beats")


async def _ask_service(look: PageRequest, service: str, question: Message, expect: type[R]) -> R | None:
    """Return the answer; None where nobody answers: the page shows what there is."""
    try:
        return await look.source.asked(service, question, expect)
    except (RuntimeFault, CommandError):
        return None


async def leave(asked: Asked) -> str:
    """Restart or drain one process, drain a worker of another host; the page shows how it goes on."""
    verb, actor = asked.form.get("verb", ""), asked.form.get("actor", "")
    if verb not in _LEAVES:
        raise UsageFault("expected restart or drain")

    peers = await asked.source.peers() if verb == "drain" else None

    def tell() -> str:
        row = None if verb == "drain" and actor.startswith(ELSEWHERE) else find_row(asked.source.home, actor)
        name = actor if row is None else row.actor
        wanted = LeaveCommand(actor=name, then="start" if verb == "restart" else "stay", person=asked.person.name)
        send_command(asked.source.home, wanted, is_followed=False)
        if verb == "restart":
            return f"{name} is being restarted"
        others = [one for one in find_running(asked.source.home).children if one.actor != name]
        far = [one for one in (() if peers is None else peers.peers) if one.instance.partition("@")[0] != name]
        lacks = "" if row is None else explain_absence(row.role, others, far)
        return f"{name.partition('@')[0]} is draining{lacks and f'; {lacks}'}"

    return await run_in_threadpool(tell)


async def scale(asked: Asked) -> str:
    """Change how many processes of a role run."""
    wanted = parse_scale([f"{asked.form.get('role', '')}={asked.form.get('count', '')}"], option="")

    def tell() -> str:
        find_running(asked.source.home)
        require_room_for(asked.source.home, wanted)
        for role, count in wanted.items():
            command = ScaleCommand(role=role, count=count, person=asked.person.name)
            send_command(asked.source.home, command, is_followed=False)
        return ", ".join(f"{role} is to have {count}" for role, count in wanted.items())

    return await run_in_threadpool(tell)
