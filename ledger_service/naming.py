"""What an entry may be called, and which once key it may claim: one table by stream and event type. Pure.

Ids are derived, so whoever knows the rule knows every id that is still to come: an entry under another's id or key
would keep the rightful one out for ever. A submission id is `<event type>:<what it is about>`, about the entry's own
session on a session's stream, and of the stamped sender where it names an instance; a once key is of the kind that its
type competes for, about the same order, call or input as the entry. Sources: spec pages "What we build", Words and ids,
and "The ledger", Write rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bus.messages.ledger import WriteEntry
from ledger_service.admission import TURN_DEGRADED, is_session_stream

_ORDER = re.compile(r"WO-[A-Za-z0-9._:@#-]+")
_CONSOLIDATION = re.compile(r"WO-CONS-[A-Za-z0-9-]+")
_INPUT = re.compile(r"[A-Za-z0-9._:@-]+")
_TRANSCRIPT = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}/[0-9a-f]{64}")
_HTTP_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}/[0-9a-f]{16}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_DELIVERED = "/delivered"


class _Named(NamedTuple):
    """An entry whose id begins with its own type."""

    about: str  # the rest of the id
    entry: WriteEntry
    sender: str  # stamped instance

    @property
    def session_id(self) -> str:
        """Of the stream; empty where it is no session's."""
        return self.entry.stream.partition("/")[2]

    @property
    def order_id(self) -> str:
        """Of an id `<wo_id>/<writer instance>`."""
        return self.about.removesuffix(f"/{self.sender}")


Rule = Callable[[_Named], bool]


# --- ids ------------------------------------------------------------------------------------------------------------


def _counted(name: _Named) -> bool:
    """`<writer instance>/<its counter>`."""
    return name.about.startswith(f"{name.sender}/") and _is_number(name.about[len(name.sender) + 1 :])


def _order_of_writer(name: _Named) -> bool:
    """`<wo_id>/<writer instance>`, and the provenance, where it names an order, names that one."""
    return (
        name.about.endswith(f"/{name.sender}")
        and _ORDER.fullmatch(name.order_id) is not None
        and name.entry.provenance.work_order_id in ("", name.order_id)
    )


def _of_session(name: _Named) -> bool:
    """`<session>/...` or `<session>-...` (a run), of this very stream."""
    return name.about.startswith((f"{name.session_id}/", f"{name.session_id}-"))


def _order_of_session(name: _Named) -> bool:
    """`WO-<session>-...`, of this very stream."""
    return name.about.startswith(f"WO-{name.session_id}-") and _ORDER.fullmatch(name.about) is not None


def _input_of_session(name: _Named) -> bool:
    """`<session>/<input>`, or that and `/delivered`."""
    return name.about.startswith(f"{name.session_id}/") and _is_input(
        name.about.removesuffix(_DELIVERED)[len(name.session_id) + 1 :]
    )


def _consolidation(name: _Named) -> bool:
    return _CONSOLIDATION.fullmatch(name.about) is not None


def _transcript(name: _Named) -> bool:
    """`<principal>/<SHA-256 of what was said>`."""
    return _TRANSCRIPT.fullmatch(name.about) is not None


def _http_key(name: _Named) -> bool:
    """`<principal>/<fingerprint>`."""
    return _HTTP_KEY.fullmatch(name.about) is not None


def _own_name(name: _Named) -> bool:
    """Its own id or digest, of which no other writer makes entries: a repeat is meant to add nothing."""
    return bool(name.about)


_IDS: dict[tuple[str, str], Rule] = {
    # journals: counted per tenure or by run or input, all of which begin with the session; orders by their own id
    ("session", "WO_DISPATCHED"): _order_of_session,
    ("session", "OrderEnded"): _order_of_session,
    ("session", TURN_DEGRADED): _input_of_session,
    ("session", ""): _of_session,
    ("ho2m", "WO_DISPATCHED"): _consolidation,
    ("ho2m", ""): _counted,
    ("ho2_context_authority", ""): _counted,
    ("ho1m", ""): _order_of_writer,
    # named by what they are about; a single role writes each of these streams' types
    ("prompts", ""): _own_name,
    ("signals", ""): _own_name,
    ("overlays", ""): _own_name,
    ("governance", "TRANSCRIPT_DELIVERED"): _transcript,
    ("governance", "HTTP_KEY_CREATED"): _http_key,
    ("governance", "HTTP_KEY_REVOKED"): _http_key,
    ("governance", ""): _own_name,
}
"""(kind of stream, event type; "" for all others) -> the form of what follows `<event type>:`."""

_WITHOUT_TYPE = frozenset({("governance", "DENIED"), ("governance", "DEAD_LETTER"), ("governance", "KEY_REFUSED")})
"""What the broker counts: its ids are `<writer instance>/<its counter>`, without a type before them."""


def is_well_named(entry: WriteEntry, sender: str) -> bool:
    """Whether this sender may give such an entry this submission id."""
    event_type = entry.event_type
    kind = "session" if is_session_stream(entry.stream) else entry.stream
    head, colon, about = entry.submission_id.partition(":")
    if (kind, event_type) in _WITHOUT_TYPE:
        return _counted(_Named(entry.submission_id, entry, sender))
    rule = _IDS.get((kind, event_type)) or _IDS.get((kind, ""))
    return rule is not None and colon == ":" and head == event_type and rule(_Named(about, entry, sender))


# --- once keys ------------------------------------------------------------------------------------------------------


def _start(name: _Named) -> bool:
    """`start:<wo_id>`, of a tool that may run again `start:<wo_id>/<k>`."""
    key, stem = name.entry.once or "", f"start:{name.order_id}"
    return key == stem or (key.startswith(f"{stem}/") and _is_number(key[len(stem) + 1 :]))


def _end(name: _Named) -> bool:
    return name.entry.once == f"end:{name.order_id}"


def _sent(name: _Named) -> bool:
    return name.entry.once == f"sent:{name.about}"


def _got(name: _Named) -> bool:
    return name.entry.once == f"got:{name.about}"


def _turn(name: _Named) -> bool:
    """`turn:<session>/<input>` of this very stream; the input stands in the body alone."""
    stem = f"turn:{name.session_id}/"
    key = name.entry.once or ""
    return key.startswith(stem) and _is_input(key[len(stem) :])


def _degraded(name: _Named) -> bool:
    """The turn's key; of the entry that says what was delivered `delivered:<session>/<input>`."""
    if name.about.endswith(_DELIVERED):
        return name.entry.once == f"delivered:{name.about.removesuffix(_DELIVERED)}"
    return name.entry.once == f"turn:{name.about}"


def _candidates(name: _Named) -> bool:
    """`candidates:<session>/<input>` of the session that the entry is about; the input stands in the body alone."""
    stem = f"candidates:{name.entry.provenance.session_id}/"
    key = name.entry.once or ""
    return key.startswith(stem) and _is_input(key[len(stem) :])


ONCE: dict[tuple[str, str], Rule] = {
    ("ho1", "TOOL_STARTED"): _start,
    ("ho1", "WO_COMPLETED"): _end,
    ("ho1", "WO_FAILED"): _end,
    ("ho2", "WO_FAILED"): _end,
    ("ho2", "CONSOLIDATION_DUE"): _candidates,
    ("gateway", "PROMPT_SENT"): _sent,
    ("gateway", "PROMPT_RECEIVED"): _got,
    ("gateway", "PROMPT_FAILED"): _got,
    ("ho2", "RunCompleted"): _turn,
    ("ho2", "RunFailed"): _turn,
    ("ho2", "RunCancelled"): _turn,
    ("host", TURN_DEGRADED): _degraded,
}
"""(role, event type) -> the once key that such an entry may claim; all others claim none."""


def may_claim(role: str, entry: WriteEntry, sender: str) -> bool:
    """Whether this sender's well-named entry may claim its once key; an entry without one claims nothing."""
    if entry.once is None:
        return True
    rule = ONCE.get((role, entry.event_type))
    return rule is not None and rule(_Named(entry.submission_id.partition(":")[2], entry, sender))


def rests_on(entry: WriteEntry, sender: str) -> str | None:
    """The once key that must have been claimed before such a well-named entry may be written; None if none must be.

    What came late came behind an end of its order.
    """
    if entry.event_type != "WO_LATE":
        return None
    return f"end:{_Named(entry.submission_id.partition(':')[2], entry, sender).order_id}"


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _is_input(text: str) -> bool:
    return _INPUT.fullmatch(text) is not None
