"""The ports: an actor's only way to the world.

Each port has a real and a simulated implementation and one conformance suite (`tests/conformance/`). Handlers read
time, ids and randomness from here and nowhere else, so that a turn can be simulated and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Message

if TYPE_CHECKING:
    from hobus.bus.messages.gateway import Prompt, PromptResponse
    from hobus.bus.messages.work_order import ToolCall
    from hobus.bus.tool import ToolResult

R = TypeVar("R", bound=Message)


class Clock(Protocol):
    """Time and drawn values; the system's (`bus.clock`) or the simulation's."""

    def now(self) -> float:
        """Return wall-clock seconds since 1970 UTC, microsecond resolution."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; same base as the running loop's `time()`."""
        ...

    def new_id(self) -> str:
        """Return a fresh UUID (lower-case canonical text)."""
        ...

    def random(self) -> float:
        """Return a draw from [0, 1), for jitter."""
        ...


class Bus(Protocol):
    """What an actor may do with other processes."""

    @property
    def instance(self) -> str:
        """Return `<role>/<n>@<epoch>` of this incarnation."""
        ...

    @property
    def clock(self) -> Clock: ...

    def now(self) -> float: ...

    def new_id(self) -> str: ...

    async def sleep(self, seconds: float) -> None: ...

    async def request(  # noqa: PLR0913 - an envelope has these fields
        self,
        service: str,
        message: Message,
        *,
        expect: type[R],
        timeout_s: float,
        key: str = "",
        message_id: str | None = None,
        attempt: int = 1,
        trace: str = "",
        on_stream: Callable[[Message], None] | None = None,
        reached_within_s: float | None = None,
    ) -> R:
        """Return the reply, within `timeout_s`.

        `reached_within_s`: for who cannot wait; `no_route` when what it goes by is not connected for so long, and
        `expired` at the deadline itself, not when a server that is silent has had its grace. `service` is a service
        name or an instance. `message_id`: given for derived idempotency (a work order's id), else counted per
        incarnation. Raises a RuntimeFault built from the Failure (BusError: no_route, busy, denied, expired, peer_lost,
        malformed, internal, cancelled; or the handler's own). Cancelling the awaiting task sends a cancel.
        """
        ...

    def ask(  # noqa: PLR0913 - an envelope has these fields
        self,
        service: str,
        message: Message,
        *,
        expect: type[R],
        timeout_s: float,
        trace: str = "",
        on_outcome: Callable[[R | RuntimeFault], None],
    ) -> None:
        """Request without a task waiting: handed over before this returns; `on_outcome` is called once.

        It gets the reply, or the fault that `request` would raise, from the event loop and never from within this call.
        What cannot be handed over at all is raised here.
        """
        ...

    def on_behalf_of(self, principal: str) -> AbstractContextManager[None]:
        """Work for this principal within the context, whoever asked for it now; empty: for nobody else."""
        ...

    @property
    def principal(self) -> str:
        """Return on whose behalf the running handler works; outside of handlers this incarnation's own."""
        ...

    async def post(self, service: str, message: Message, *, key: str = "", trace: str = "") -> None:
        """Hand a message to the broker and forget it; raises BusError only when it cannot even be handed over."""
        ...

    async def publish(self, message: Message, *, trace: str = "") -> None:
        """Send to whoever subscribed to this type."""
        ...


class FileHandle(Protocol):
    """One open file behind the disk port."""

    def read_at(self, offset: int, size: int) -> bytes: ...

    def write_at(self, offset: int, data: bytes | bytearray) -> None:
        """Write all of it, or raise OSError."""
        ...

    def append(self, data: bytes) -> int:
        """Append and return the offset."""
        ...

    def sync(self) -> None:
        """Sync (fdatasync): return when the device says so, raise OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files of one process below one directory; paths are relative, `/`-separated."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> FileHandle: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted; empty if it does not exist."""
        ...

    def make_dir(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_dir(self, path: str = "") -> None: ...

    def free_bytes(self) -> int: ...

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take an exclusive lock until the returned function is called or the process dies; None if somebody has it."""
        ...

    def real_path(self, path: str) -> str | None:
        """Return a path that SQLite can open; None where files live in memory (then `:memory:` is used)."""
        ...


class Anew(str):
    """A piece of an answer before which all earlier ones are taken back: they were no part of it."""

    __slots__ = ()


class Used(str):
    """The last piece of an answer that is given up, without words: the tokens that it has used by then."""

    __slots__ = ("tokens",)

    tokens: Mapping[str, int]


class Provider(Protocol):
    """One model provider instance.

    One that knows has `async window(model_id)` besides: tokens of prompt and answer together; None: not known.
    """

    @property
    def provider_id(self) -> str: ...

    async def prepare(self) -> None:
        """Load what the provider needs (a library, a key); asked before every call, and cheap once that is done.

        Raises GatewayError(PROVIDER_UNUSABLE) that says what to fix: nothing was sent.
        """
        ...

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """Make one attempt, no retries; raises GatewayError with a provider code. Cancelling stops the HTTP call.

        `on_delta`, where given, is told pieces of the content as they come: in order, together a beginning of it from
        the last `Anew` on.
        """
        ...


class ToolRunner(Protocol):
    """Run tools so that a cancel or a deadline really stops them."""

    def available(self) -> Sequence[str]: ...

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """Run one call; cancelling the task kills the tool."""
        ...
