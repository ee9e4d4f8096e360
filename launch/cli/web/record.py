"""The screens of the record: entries newest first, found by words or by a filter; one of them; its verification."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from shlex import quote
from typing import Any

from starlette.concurrency import run_in_threadpool

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Search
from hobus.launch.cli.commands.ledger import make_verdict
from hobus.launch.cli.commands.ledger_search import find_in
from hobus.launch.cli.commands.options import filter_given
from hobus.launch.cli.entry_view import format_cells, make_entry_document, show_bodies
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import Asked, PageAnswer, PageRequest
from hobus.launch.console.errors import UsageFault
from hobus.launch.filters.ledger_fields import EXAMPLE, FIELDS, LedgerRow, make_ledger_filter
from hobus.ledger_service.index import read_positions
from hobus.ledger_service.verify import VerifyReport, verify_directory


@dataclass(slots=True)
class Verification:
    """The newest verification of this console."""

    verified: int = 0
    of: int = 0
    is_going: bool = False
    report: VerifyReport | None = None
    fault: str = ""
    task: asyncio.Task[None] | None = None


_VERIFICATION = Verification()
"""Of this process, which serves one home."""


async def record(look: PageRequest) -> PageAnswer:
    """`hobus ledger search` with words, else `hobus ledger show` by a filter; and how far a verification is."""
    words, said = look.query.get("words", "").strip(), look.query.get("filter", "").strip()
    shown: dict[str, Any] = {"words": words, "said": said, "verification": _VERIFICATION, "hits": None, "rows": []}
    if words:
        question = Search(words=words[: limits.WORDS_CHARS], limit=limits.HITS)
        hits = await find_in(look.source.home, await look.source.journals(), question)
        shown |= {"hits": hits, "next": None}
        document = hits.model_dump(mode="json")
        return PageAnswer("record.html", "Record", document, f"ledger search {quote(words)}", shown, has_texts=True)
    wanted = filter_given(make_ledger_filter, (said,) if said else (), names=FIELDS, example=EXAMPLE)
    now = look.source.clock.now()
    found, go_on = await look.source.newest(
        before=look.sequence("before"), accepts=lambda entry: wanted.accepts(LedgerRow(entry, now)),
        limit=limits.PAGE, with_bodies=False,
    )  # fmt: skip
    document = {"entries": [make_entry_document(one) for one in found], "more": go_on is not None, "next": go_on}
    shown |= {"rows": [(one, format_cells(one)) for one in found], "next": go_on}
    live = "beats" if _VERIFICATION.is_going else "" if look.sequence("before") is not None else "*"
    return PageAnswer("record.html", "Record", document, f"ledger show {said and quote(said)}".strip(), shown, live)


async def show_entry(look: PageRequest) -> PageAnswer:
    """`hobus ledger show N --bodies`: where it stands, what it rests on, its bodies by the names of their fields."""
    given = look.path["sequence"]
    number = int(given) if given.isascii() and given.isdigit() and len(given) <= limits.DIGITS_MAX else -1
    newest, _ = await look.source.newest(before=number + 1, accepts=lambda _: True, limit=1, with_bodies=True)
    if not newest or newest[0].sequence != number:
        raise UsageFault(f"#{given[:20]}: the record has no such entry")
    found = newest[0]
    document = {"entries": [make_entry_document(found)]}
    facts = {
        name: value
        for name, value in document["entries"][0].items()
        if name != "bodies" and value not in ("", None, [])
    }
    shown = {"entry": found, "facts": facts, "bodies": show_bodies(found)}
    has_texts = bool(found.bodies) and found.stream != "governance"
    return PageAnswer(
        "entry.html", f"#{number}", document, f"ledger show {number} --bodies", shown, has_texts=has_texts
    )


async def verify(asked: Asked) -> str:
    """Every byte of the record is checked, aside; the page shows how far it is."""
    if not _VERIFICATION.is_going:
        _VERIFICATION.is_going, _VERIFICATION.report, _VERIFICATION.fault = True, None, ""
        _VERIFICATION.task = asyncio.get_running_loop().create_task(_verify(asked))
    return ""


async def _verify(asked: Asked) -> None:
    path = asked.source.home.ledger

    def tell_progress(count: int) -> None:
        _VERIFICATION.verified = count

    def check() -> VerifyReport:
        indexed = read_positions(path)
        _VERIFICATION.verified, _VERIFICATION.of = 0, indexed[-1].last + 1 if indexed else 0
        return verify_directory(path, tell_progress)

    try:
        _VERIFICATION.report = await run_in_threadpool(check)
    except (RuntimeFault, OSError) as fault:
        _VERIFICATION.fault = str(fault)
    finally:
        _VERIFICATION.is_going = False


async def show_verification(_look: PageRequest) -> PageAnswer:
    """`hobus ledger verify` as far as it is: what the newest one found."""
    report = _VERIFICATION.report
    document = {"is_going": _VERIFICATION.is_going, "verified": _VERIFICATION.verified, "of": _VERIFICATION.of} | (
        {} if report is None else make_verdict(report)
    )
    shown = {"verification": _VERIFICATION}
    return PageAnswer(
        "verify.html", "Verification", document, "ledger verify", shown, live="beats" if _VERIFICATION.is_going else ""
    )
