"""Tests that are one story, played where a fixture of theirs has a loop: a cluster on a transport, a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any


def played(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run by the first of its fixtures that can."""

    @wraps(story)
    def test(**fixtures: Any) -> None:
        run = next(one.run for one in fixtures.values() if hasattr(one, "run"))
        run(story(**fixtures))

    return test
