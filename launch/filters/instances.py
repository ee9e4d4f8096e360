"""An actor as people name it: `ho1` means all of them, `ho1/2` one, `ho1/2@<incarnation>` one life of it."""

from __future__ import annotations


def forms(instance: str) -> tuple[str, ...]:
    """Everything that an instance (or a service) answers to."""
    name = instance.partition("@")[0]
    return (instance, name, name.partition("/")[0])


def short(instance: str) -> str:
    """`<role>/<n>`, or the service."""
    return instance.partition("@")[0]
