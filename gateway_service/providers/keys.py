"""A provider's key, from where its reference leads: an environment variable that was given, or a private file.

What is read stays in the process that asked; no fault of it repeats anything that stood there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hobus.bus.errors import GatewayError

_MAX_BYTES = 8192
"""What servers take as one header."""

_OTHERS = 0o077


def read_key(provider_id: str, reference: str | None, given: Mapping[str, str]) -> str:
    """Return the key behind `env:NAME` or `file:PATH`; empty for a provider without one.

    Raises GatewayError(PROVIDER_UNUSABLE) with the fix.
    """
    if reference is None:
        return ""
    kind, _, where = reference.partition(":")
    if kind == "env":
        if where not in given:
            raise make_unusable(
                provider_id, f"the environment variable {where} is not set", "set it where the cluster is started"
            )
        return _check_key(provider_id, given[where], f"the environment variable {where}")
    try:
        path = Path(where).expanduser()
    except RuntimeError:
        raise make_unusable(
            provider_id, f"the key file {where} cannot be found: there is no such user", "give its whole path"
        ) from None
    return _check_key(provider_id, _read_text(provider_id, path), f"the file {where}")


def read_state(reference: str | None) -> tuple[int, ...]:
    """Return a value that changes when a key's file is written anew; constant for what is no file."""
    if reference is None or not reference.startswith("file:"):
        return ()
    try:
        found = os.stat(os.path.expanduser(reference.removeprefix("file:")))  # noqa: PTH111, PTH116 - at each call
    except (OSError, ValueError):
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _read_text(provider_id: str, path: Path) -> str:
    what = f"the key file {path}"
    try:
        # A pipe would wait for a writer for ever; what is open is what is looked at.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise make_unusable(
            provider_id, f"{what} cannot be read: {error.strerror}", "make it, for this user alone"
        ) from None
    except ValueError:
        raise make_unusable(provider_id, f"{what} cannot be read", "give the path of a file") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise make_unusable(provider_id, f"{what} is not a regular file", "write the key into one")
        if found.st_uid not in (os.geteuid(), 0):
            raise make_unusable(provider_id, f"{what} belongs to somebody else", "make it your own")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise make_unusable(provider_id, f"{what} can be read by others (mode {mode:04o})", f"chmod 600 {path}")
        data = os.read(descriptor, _MAX_BYTES + 1)
    except OSError as error:
        raise make_unusable(provider_id, f"{what} cannot be read: {error.strerror}", "look at the disk") from None
    finally:
        os.close(descriptor)
    return data.decode("latin-1")


def find_key_fault(key: str) -> tuple[str, str] | None:
    """Return what keeps this from being a key, and the fix; None for one. Nothing of it is repeated."""
    if not key:
        return "is empty", "put the key there"
    if len(key) > _MAX_BYTES:
        return f"holds more than {_MAX_BYTES} bytes", "put the key there, and nothing else"
    if not all("!" <= char <= "~" for char in key):
        return "holds a blank, a second line or a letter that no key has", "put the key there, alone"
    return None


def _check_key(provider_id: str, text: str, what: str) -> str:
    """Return the key without the newline that an editor leaves; anything else around or in it is a mistake."""
    key = text.removesuffix("\n").removesuffix("\r")
    if (fault := find_key_fault(key)) is not None:
        said, fix = fault
        raise make_unusable(provider_id, f"{what} {said}", fix)
    return key


def make_unusable(provider_id: str, what: str, fix: str) -> GatewayError:
    """Return the fault of a provider that cannot be used until somebody fixes it."""
    return GatewayError("PROVIDER_UNUSABLE", f"provider {provider_id} cannot be used: {what}; {fix}")
