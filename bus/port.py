"""The ports: an actor's only way to the world.

Each port has a real and a simulated implementation and one conformance suite (`tests/conformance/`). Handlers read
time, ids and randomness from here and nowhere else, so that a turn can be simulated and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        """Wall-clock seconds since 1970 UTC, microsecond resolution."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; same base as the running loop's `time()`."""
        ...

    def new_id(self) -> str:
        """A fresh UUID (lower-case canonical text)."""
        ...

    def random(self) -> float:
        """A draw from [0, 1), for jitter."""
        ...


class Bus(Protocol):
    """What an actor may do with other processes."""

    @property
    def instance(self) -> str:
        """`<role>/<n>@<epoch>` of this incarnation."""
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
        """The reply, within `timeout_s`.

        `reached_within_s`: for who cannot wait; `no_route` when what it goes by is not connected for so long, and
        `expired` at the deadline itself, not when a server that is silent has had its grace.

        `service` is a service name or an instance. `message_id`: given for derived idempotency (a work order's id),
        else counted per incarnation. Raises a RuntimeFault built from the Failure (BusError: no_route, busy, denied,
        expired, peer_lost, malformed, internal, cancelled; or the handler's own). Cancelling the awaiting task sends a
        cancel.
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
        """`request` for who keeps no task waiting: handed over before this returns; `on_outcome` is called once.

        It gets the reply, or the fault that `request` would raise, from the event loop and never from within this call.
        What cannot be handed over at all is raised here.
        """
        ...

    def on_behalf_of(self, principal: str) -> AbstractContextManager[None]:
        """What is begun within it works for this principal, whoever asked for it now; empty: for nobody else."""
        ...

    @property
    def principal(self) -> str:
        """On whose behalf the running handler, or what it began, works; this incarnation's own outside of handlers."""
        ...

    async def post(self, service: str, message: Message, *, key: str = "", trace: str = "") -> None:
        """Fire and forget: handed to the broker; raises BusError only when it cannot even be handed over."""
        ...

    async def publish(self, message: Message, *, trace: str = "") -> None:
        """To whoever subscribed to this type."""
        ...


class FileHandle(Protocol):
    """One open file behind the disk port."""

    def read_at(self, offset: int, size: int) -> bytes: ...

    def write_at(self, offset: int, data: bytes | bytearray) -> None:
        """Writes all of it, or raises OSError."""
        ...

    def append(self, data: bytes) -> int:
        """Offset at which it was written."""
        ...

    def sync(self) -> None:
        """fdatasync; returns when the device says so, raises OSError."""
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files of one process below one directory; paths are relative, `/`-separated."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> FileHandle: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str = "") -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""
        ...

    def make_dir(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_dir(self, path: str = "") -> None: ...

    def free_bytes(self) -> int: ...

    def lock(self, path: str) -> Callable[[], None] | None:
        """An exclusive lock held until the returned function is called or the process dies; None if somebody has it."""
        ...

    def real_path(self, path: str) -> str | None:
        """A path that SQLite can open; None where files live in memory (then `:memory:` is used)."""
        ...


class Anew(str):
    """A piece of an answer before which all earlier ones are taken back: they were no part of it."""

    __slots__ = ()


class Provider(Protocol):
    """One model provider instance.

    One that knows has `window(model_id)` besides: tokens that prompt and answer may have together, None: not known.
    """

    @property
    def provider_id(self) -> str: ...

    async def prepare(self) -> None:
        """What it needs (a library, a key) is there from now on; asked before every call, and cheap once it is.

        Raises GatewayError(PROVIDER_UNUSABLE) that says what to fix: nothing was sent.
        """
        ...

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """One attempt, no retries; raises GatewayError with a provider code. Cancelling stops the HTTP call.

        `on_delta`, where given, is told pieces of the content as they come: in order, together a beginning of it from
        the last `Anew` on.
        """
        ...


class ToolRunner(Protocol):
    """Runs tools so that a cancel or a deadline really stops them."""

    def available(self) -> Sequence[str]: ...

    async def run(self, call: ToolCall, *, context: dict[str, Any], timeout_s: float) -> ToolResult:
        """Runs one call; cancelling the task kills the tool."""
        ...
