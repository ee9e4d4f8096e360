"""What models and tools answered in a test's run: written from the record, and replayed without either."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec import json as msgjson
from msgspec.structs import replace

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payloads.prompts import AnswerCalls, PromptSent
from hobus.bus.tool import call_key
from hobus.config.prompt_pack import parse_pack
from hobus.config.snapshot import Snapshot
from hobus.launch.sessions.evidence import decode_body, read_text
from hobus.launch.sessions.why_prompts import messages_sent
from hobus.launch.testing.model import Reply, Request, ScriptedCall, ScriptedModel, request_of
from hobus.ledger_service.reader import read_entries


class TapedCall(Struct):
    """What a model was asked with, and its answer."""

    asked: Request
    answer: Reply


class Tape(Struct):
    """A cassette's file."""

    version: Literal[1]
    calls: list[TapedCall]


def recorded(entries: list[Entry], packs: Mapping[str, str], *, after: int) -> list[TapedCall]:
    """Each answered call of a model behind this sequence of a whole record."""
    by_id = {entry.submission_id: entry for entry in entries}
    found: list[TapedCall] = []
    for entry in entries:
        said = decode_body(entry) if entry.event_type == "PROMPT_SENT" else None
        answer = by_id.get(entry.submission_id.replace("PROMPT_SENT:", "PROMPT_RECEIVED:", 1))
        if not isinstance(said, PromptSent) or answer is None or entry.sequence <= after:
            continue
        texts = parse_pack(said.prompt_pack_id, packs[said.prompt_pack_id]).texts
        asked = request_of(messages_sent(entry, texts, by_id), said.tools)
        calls = decode_body(answer, 2)
        made = calls.tool_calls if isinstance(calls, AnswerCalls) else ()
        wanted = [ScriptedCall(one.tool_id, one.arguments) for one in made]
        found.append(TapedCall(asked, Reply(read_text(answer) or "", wanted)))
    return found


def write_cassette(home: Path, path: Path, *, after: int) -> None:
    """Write what the cluster of this home was asked behind this sequence of its record as a cassette for people."""
    packs = Snapshot.from_bytes((home / "run" / "snapshot").read_bytes()).prompt_packs
    calls = recorded(list(read_entries(home / "ledger", with_bodies=True)), packs, after=after)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgjson.format(msgjson.encode(Tape(1, calls)), indent=1) + b"\n")


class Cassette(ScriptedModel):
    """Answers as recorded, as long as it is asked what was asked then."""

    def __init__(self, path: Path) -> None:
        """Read a cassette. Raises ValueError for a file that is none of this version."""
        self.origin = f"{path}"
        try:
            self._calls = msgjson.decode(path.read_bytes(), type=Tape).calls
        except ValueError:
            raise ValueError(f"{path} is no cassette of this version: pytest --hobus-record makes it anew") from None
        self._difference = ""
        super().__init__([partial(_repeat, number, one) for number, one in enumerate(self._calls, 1)])

    def reply(self, request: Request) -> Reply:
        """Return the recorded answer; from the first request that differs on, that difference."""
        reply = super().reply(request)
        if reply.fault and not self._difference:
            self._difference = f"{reply.fault}\n{self.origin}; pytest --hobus-record records it anew"
        return Reply(fault=self._difference) if self._difference else reply

    def fault(self) -> str:
        """Return the first difference, or that less was asked than then; empty: neither."""
        return self._difference or super().fault()

    def tool_answers(self) -> dict[str, list[Any]]:
        """Return what the tools brought, as far as that is a value that they can bring again."""
        found: dict[str, list[Any]] = defaultdict(list)
        for messages in (one.asked.messages for one in self._calls):
            asking = list(dropwhile(lambda one: one.role == "tool", reversed(messages)))  # what it asks about is new
            calls = asking[0].calls if asking else ()
            for one, result in zip(calls, messages[len(asking) :], strict=False):
                with suppress(ValueError):  # what failed, or was cut
                    brought = json.loads(result.text)
                    found[call_key(one.tool, one.arguments)].append(brought)
        return found


def _repeat(number: int, recorded_call: TapedCall, request: Request) -> Reply:
    wanted, asked = recorded_call.asked, replace(request, output_schema=None)
    if wanted == asked:
        return recorded_call.answer
    lines = difflib.unified_diff(_lines(wanted), _lines(asked), "recorded", "asked now", lineterm="", n=1)
    return Reply(fault="\n".join([f"request {number} differs from the cassette:", *lines]))


def _lines(asked: Request) -> list[str]:
    return [f"tools: {', '.join(asked.tools)}"] + [
        line
        for one in asked.messages
        for line in (
            *f"{one.role}: {one.text}".splitlines(),
            *(f"  calls {each.tool} {json.dumps(each.arguments)}" for each in one.calls),
        )
    ]
