"""What the clients of sessions raise, over HTTP and over the bus alike.

HobusError             code, message, hint, is_retryable, retry_after_s; is_verdict: what a turn came to
├── RequestError       what was asked for is no such thing (`invalid_input`), or of a closed client (`closed`); also a
│                      ValueError. Nothing has begun
├── ClusterError       over the bus: nobody answered in time, whoever did refused, or the turn ended in an error
└── HttpError          over HTTP: the same, as the door answers it, with its status
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from functools import wraps
from inspect import Parameter, Signature, isasyncgenfunction, iscoroutinefunction, isfunction, signature
from math import inf
from typing import Any, TypeVar

from msgspec import ValidationError

from hobus.bus.errors import RuntimeFault, put_plainly
from hobus.bus.messages.base import describe_fault
from hobus.bus.messages.session import TurnResult
from hobus.launch.console.errors import CommandError, UsageFault

T = TypeVar("T")
_RETRYABLE = frozenset({408, 429, 502, 503, 504})


class HobusError(Exception):
    """Any error of a client; `is_retryable`: whether the same may be answered later."""

    is_retryable = False
    is_verdict = False
    """Whether it is what a turn came to, which the same input brings again."""

    def __init__(self, code: str, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(f"{code}: {message}{hint and f'; next: {hint}'}")
        self.code = code
        self.message = message
        self.hint = hint
        self.retry_after_s = retry_after_s


class RequestError(HobusError, ValueError):
    """No such thing can be asked for."""


class ClusterError(HobusError):
    """Over the bus: no answer, or a refusal."""


class HttpError(HobusError):
    """The door's answer was an error: `status`, `code`, `message`, and whether the same may be asked again."""

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: float | None = None, is_verdict: bool = False
    ) -> None:
        super().__init__(code, message, retry_after_s=retry_after_s)
        self.args = (f"{status} {code}: {message}",)
        self.status = status
        self.is_verdict = is_verdict
        self.is_retryable = status in _RETRYABLE and not is_verdict


def check_seconds(given: Any) -> float:
    """Return a valid time-out. Raises RequestError."""
    if not isinstance(given, (int, float)) or not 0 < given < inf:
        raise RequestError("invalid_input", "timeout_s: expected a number of seconds above zero")
    return float(given)


def check_limit(given: Any) -> None:
    """Raise RequestError for an invalid bound."""
    if given is not None and (not isinstance(given, int) or given < 1):
        raise RequestError("invalid_input", "limit: expected a whole number above zero")


@contextmanager
def as_hobus_errors() -> Generator[None]:
    """Raise whatever is expected to go wrong in here as one of these errors."""
    try:
        yield
    except HobusError:
        raise
    except ValidationError as error:
        raise RequestError("invalid_input", describe_fault(error)) from error
    except CommandError as error:
        kind = RequestError if isinstance(error, UsageFault) else ClusterError
        raise kind(error.code if kind is ClusterError else "invalid_input", error.message, hint=error.hint) from error
    except RuntimeFault as fault:
        wait_s = None if fault.retry_after_ms is None else fault.retry_after_ms / 1000
        told = ClusterError(fault.code, put_plainly(fault), retry_after_s=wait_s)
        told.is_retryable = fault.retryable
        raise told from fault
    except OSError as error:
        raise ClusterError("unavailable", str(error)) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError("invalid_input", "an argument has a type or value that cannot be sent") from error


def require_answer(result: TurnResult) -> TurnResult:
    """Return the result of an answered turn, also if degraded. Raises ClusterError for one that ended in an error."""
    if result.outcome != "error":
        return result
    wait_s = None if result.retry_after_ms is None else result.retry_after_ms / 1000
    error = ClusterError(result.code or "error", result.response, retry_after_s=wait_s)
    error.is_verdict = True
    raise error


def translate_errors(cls: type[T]) -> type[T]:
    """Decorate a client: its public methods raise nothing else, take a session by a short id, and say it is closed."""
    for name in ("__init__", *(one for one in dir(cls) if not one.startswith("_") and one != "close")):
        method = vars(cls).get(name) or getattr(cls, name)
        if isinstance(method, classmethod):
            setattr(cls, name, classmethod(_translate(method.__func__)))
        elif isfunction(method):
            setattr(cls, name, _translate(method))
    return cls


def _translate(method: Callable[..., Any]) -> Callable[..., Any]:
    taken = signature(method)
    if isasyncgenfunction(method):

        @wraps(method)
        async def yield_pieces(*given: Any, **named: Any) -> AsyncGenerator[Any]:
            with as_hobus_errors():
                bound = await _bind(taken, given, named)
                async with aclosing(method(*bound.args, **bound.kwargs)) as following:
                    async for one in following:
                        yield one

        return yield_pieces
    if iscoroutinefunction(method):

        @wraps(method)
        async def answer(*given: Any, **named: Any) -> Any:
            with as_hobus_errors():
                bound = await _bind(taken, given, named)
                return await method(*bound.args, **bound.kwargs)

        return answer

    return as_hobus_errors()(method)


async def _bind(taken: Signature, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the arguments, with the full id of the session that is meant."""
    try:
        bound = taken.bind(*given, **named)
    except TypeError as error:
        raise RequestError("invalid_input", f"arguments: {error}") from error
    client = given[0]
    if client.is_closed:
        raise RequestError("closed", "this client is closed; open another one")
    session_id = bound.arguments.get("session_id")
    is_needed = "session_id" in bound.arguments and taken.parameters["session_id"].default is Parameter.empty
    if session_id is not None or is_needed:
        if not isinstance(session_id, str):
            raise RequestError("invalid_input", f"session_id: expected a text, not a {type(session_id).__name__}")
        bound.arguments["session_id"] = await client._session_named(session_id)  # noqa: SLF001 - a method of what is decorated
    return bound
