"""Which inputs are open by the record, as a reader follows it: a run that is not over, a follow-up that has not begun."""

from __future__ import annotations

from hobus.bus.messages.ids import follow_up_input
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.session_facts import RUN_ENDS


class Left:
    """Taken entry by entry, in the order of the record. The only commands in it are follow-ups."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], str] = {}  # (session, run) -> `<session>/<input>`
        self._waiting: set[str] = set()

    def take(self, entry: Entry) -> None:
        """One more entry."""
        about, session_id = entry.submission_id.partition(":")[2], entry.provenance.session_id
        name = f"{session_id}/{follow_up_input(about.partition('/')[2])}"
        match entry.event_type:
            case "RunRequested":
                self._runs[session_id, entry.provenance.run_seq] = about
                self._waiting.discard(about)
            case "TurnDegraded":
                self._runs = {run: of for run, of in self._runs.items() if of != about}
            case "HostCommandReceived":
                self._waiting.add(name)
            case "HostCommandRejected":
                self._waiting.discard(name)
            case _ if entry.event_type in RUN_ENDS:
                self._runs.pop((session_id, entry.provenance.run_seq), None)
            case _:
                pass

    def open(self) -> list[str]:
        """`<session>/<input>` of each."""
        return sorted([*self._runs.values(), *(f"{name} (not begun)" for name in self._waiting)])
