"""The screens of the record: entries newest first, found by words or by a filter; one of them; its verification."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from hobus.launch.cli.commands.ledger import make_verdict
from hobus.launch.cli.commands.options import filter_given
from hobus.launch.cli.entry_view import format_cells, make_entry_document, show_bodies
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import Asked, PageAnswer, PageRequest, read_number
from hobus.launch.console.errors import UsageFault
from hobus.launch.filters.ledger_fields import EXAMPLE, FIELDS, LedgerRow, make_ledger_filter
from hobus.ledger_service.index import read_positions
from hobus.ledger_service.verify import VerifyReport, verify_directory


@dataclass(slots=True)
class Verification:
    """The newest verification of this process, which serves one home."""

    verified: int = 0
    of: int = 0
    task: asyncio.Future[VerifyReport] | None = None


_VERIFICATION = Verification()


async def record(look: PageRequest) -> PageAnswer:
    """`hobus ledger search` with words, else `hobus ledger show` by a filter."""
    words, said = look.text("words"), look.text("filter")
    shown: dict[str, Any] = {"words": words, "said": said, "hits": None, "rows": []}
    if words:
        hits = await look.source.search(words)
        shown |= {"hits": hits, "next": None}
        document = hits.model_dump(mode="json")
        return PageAnswer("record.html", "Record", document, shown, has_texts=True)
    wanted = filter_given(make_ledger_filter, (said,) if said else (), names=FIELDS, example=EXAMPLE)
    now = look.source.clock.now()
    found, go_on = await look.source.newest(
        before=look.sequence("before"), accepts=lambda entry: wanted(LedgerRow(entry, now)),
        limit=limits.PAGE, with_bodies=False,
    )  # fmt: skip
    document = {"entries": [make_entry_document(one) for one in found], "more": go_on is not None, "next": go_on}
    shown |= {"rows": [(one, format_cells(one)) for one in found], "next": go_on}
    live = "" if look.sequence("before") is not None else "*"
    return PageAnswer("record.html", "Record", document, shown, live)


async def show_entry(look: PageRequest) -> PageAnswer:
    """`hobus ledger show N --bodies`: where it stands, what it rests on, its bodies by the names of their fields."""
    number = read_number(look.path["sequence"])
    before = 0 if number is None else number + 1
    newest, _ = await look.source.newest(before=before, accepts=lambda _: True, limit=1, with_bodies=True)
    if not newest or newest[0].sequence != number:
        raise UsageFault(f"#{look.path['sequence'][:20]}: the record has no such entry")
    found = newest[0]
    entry = make_entry_document(found)
    facts = {name: value for name, value in entry.items() if name != "bodies" and value not in ("", None, [])}
    shown = {"entry": found, "facts": facts, "bodies": show_bodies(found)}
    has_texts = bool(found.bodies) and found.stream != "governance"
    return PageAnswer("entry.html", f"#{number}", {"entries": [entry]}, shown, has_texts=has_texts)


async def verify(asked: Asked) -> str:
    """Every byte of the record is checked, aside; the page shows how far it is."""
    path = asked.source.home.ledger

    def tell_progress(count: int) -> None:
        _VERIFICATION.verified = count

    def check() -> VerifyReport:
        indexed = read_positions(path)
        _VERIFICATION.verified, _VERIFICATION.of = 0, indexed[-1].last + 1 if indexed else 0
        return verify_directory(path, tell_progress)

    if _VERIFICATION.task is None or _VERIFICATION.task.done():
        _VERIFICATION.task = asyncio.ensure_future(run_in_threadpool(check))
    return ""


async def show_verification(_look: PageRequest) -> PageAnswer:
    """`hobus ledger verify` as far as it is: what the newest one found."""
    task, report, fault = _VERIFICATION.task, None, None
    is_going = task is not None and not task.done()
    if task is not None and not is_going:
        fault = task.exception()
        report = None if fault else task.result()
    document = {"is_going": is_going, "verified": _VERIFICATION.verified, "of": _VERIFICATION.of}
    document |= {"fault": str(fault)} if fault else {}
    document |= {} if report is None else make_verdict(report)
    shown = {"v": _VERIFICATION, "is_going": is_going, "report": report, "fault": fault}
    live = "beats" if is_going else ""
    return PageAnswer("verify.html", "Verification", document, shown, live)
