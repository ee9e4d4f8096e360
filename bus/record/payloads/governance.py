"""Stream `governance`: refusals, keys, looks, recoveries: ids, names and figures, never a secret."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta


class Degradation(NamedTuple):
    """DEGRADATION: a turn is answered without its supervisor, and why."""

    input_id: Annotated[str, Meta(description="of the turn")]


class Denied(NamedTuple):
    """DENIED: refusals, by sender, with their number.

    Also of DEAD_LETTER, which nobody took. A claimed name stands here if it is one.
    """

    sender: Annotated[str, Meta(description="stamped instance, or unbound")]
    times: Annotated[int, Meta(description="how often")]
    first_at_us: Annotated[int, Meta(description="when first; microseconds since 1970 UTC")]
    type: Annotated[str, Meta(description="of the message; empty: none that is known")] = ""
    service: Annotated[str, Meta(description="that it was for; empty: not the broker's word")] = ""
    message_id: Annotated[str, Meta(description="of a dead letter")] = ""
    event_type: Annotated[str, Meta(description="of the entry that was not written; empty: it was no write")] = ""
    stream: Annotated[str, Meta(description="that it was about; empty: none that is known")] = ""


class TokenMade(NamedTuple):
    """TOKEN_CREATED: a join token for workers on other hosts."""

    token: Annotated[str, Meta(description="its id")]
    role: Annotated[str, Meta(description="as which a worker may join")]
    uses: Annotated[int, Meta(description="how often")]
    created_at_us: Annotated[int, Meta(description="microseconds since 1970 UTC")]
    expires_at_us: Annotated[int, Meta(description="microseconds since 1970 UTC")]


class KeyEnrolled(NamedTuple):
    """KEY_ENROLLED: a worker on another host joined, or has a new key."""

    key: Annotated[str, Meta(description="its fingerprint")]
    name: Annotated[str, Meta(description="of the worker")]
    role: Annotated[str, Meta(description="of the worker")]
    token: Annotated[str, Meta(description="id of the token that it joined with")]
    host: Annotated[str, Meta(description="as it calls its own")]
    version: Annotated[str, Meta(description="of its software")]
    enrolled_at_us: Annotated[int, Meta(description="microseconds since 1970 UTC")]
    replaces: Annotated[str, Meta(description="fingerprint of the key before it; empty: it has joined")] = ""


class KeyRevoked(NamedTuple):
    """KEY_REVOKED: a worker's key was revoked or replaced, or a token revoked."""

    key: Annotated[str, Meta(description="its fingerprint")]
    name: Annotated[str, Meta(description="of the worker; empty: the token's own key")]
    token: Annotated[str, Meta(description="id of the token that it joined with")]


class KeyRefused(NamedTuple):
    """KEY_REFUSED: connections with unknown keys were refused."""

    key: Annotated[str, Meta(description="its fingerprint; empty: it is none")]
    times: Annotated[int, Meta(description="how often")] = 1
    first_at_us: Annotated[int, Meta(description="when first; microseconds since 1970 UTC")] = 0
    address: Annotated[str, Meta(description="where it came from; empty: it wanted to join")] = ""
    token: Annotated[str, Meta(description="id of the token that it wanted to join with; empty: none")] = ""


class BodiesRead(NamedTuple):
    """TAP_BODIES_READ: an operator begins to read bodies."""

    look: Annotated[str, Meta(description="its id")]
    filter: Annotated[tuple[str, ...], Meta(description="what is looked at")]
    since_s: Annotated[float | None, Meta(description="how far back; None: from now on")]
    person: Annotated[str, Meta(description="signed in at the console; empty: by the command")] = ""


class BodiesClosed(NamedTuple):
    """TAP_BODIES_CLOSED: the operator stopped reading."""

    look: Annotated[str, Meta(description="its id")]
    bodies: Annotated[int, Meta(description="how many were shown")]
    elapsed_ms: Annotated[int, Meta(description="how long it took")]


class TranscriptDelivered(NamedTuple):
    """TRANSCRIPT_DELIVERED: the session and last input of a delivered transcript."""

    input_id: Annotated[str, Meta(description="of the turn")]


class TurnImage(NamedTuple):
    """TURN_IMAGE: an image of a person's message."""

    media_type: Annotated[str, Meta(description="by its bytes")]


class HttpKeyCreated(NamedTuple):
    """HTTP_KEY_CREATED: a key of the HTTP door was made."""

    key: Annotated[str, Meta(description="`key:<fingerprint>`")]
    name: Annotated[str, Meta(description="principal that it stands for")]
    at_us: Annotated[int, Meta(description="microseconds since 1970 UTC")]
    expires_at_us: Annotated[int | None, Meta(description="microseconds since 1970 UTC; None: never")]
    may: Annotated[str, Meta(description="what it opens: use, approve, metrics, cell")]
    replaces: Annotated[str, Meta(description="`key:<fingerprint>` of the key before it; empty: there was none")] = ""
    replaced_until_us: Annotated[int | None, Meta(description="until when that one is good at most")] = None


class HttpKeyRevoked(NamedTuple):
    """HTTP_KEY_REVOKED: such a key was revoked."""

    key: Annotated[str, Meta(description="`key:<fingerprint>`")]
    name: Annotated[str, Meta(description="principal that it stood for")]
    at_us: Annotated[int, Meta(description="microseconds since 1970 UTC")]


class OperatorCommand(NamedTuple):
    """OPERATOR_COMMAND: an operator scaled, restarted, drained or reloaded processes."""

    command: Annotated[str, Meta(description="as the launcher took it; JSON")]
    principal: Annotated[str, Meta(description="who said it: `local`")]
    user: Annotated[str, Meta(description="name or number of the operating system user; empty: not known")]
    door: Annotated[str, Meta(description="`control/<process id>`: the launcher's socket, and who wrote there")]


class BatchSetAside(NamedTuple):
    """RECOVERED: the ledger's start set an incomplete batch aside."""

    file: Annotated[str, Meta(description="segment that they stood in")]
    byte: Annotated[int, Meta(description="where they began")]
    size_bytes: Annotated[int, Meta(description="how many")]
    kept_in: Annotated[str, Meta(description="file that has them now")]
    kind: Annotated[str, Meta(description="torn; or stray: beyond the end, where no write left them")]


class WriteConflict(NamedTuple):
    """WRITE_CONFLICT: a known submission id came with other content."""

    submission_id: Annotated[str, Meta(description="the id")]
    writer: Annotated[str, Meta(description="stamped instance that tried")]
    sequence: Annotated[int, Meta(description="of the entry that stands")]
    origin: Annotated[str, Meta(description="instance that wrote that one")]
