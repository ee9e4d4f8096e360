"""Reads text below allowed roots, and nothing else: no `..`, no way out by links, no device, no pipe.

A file is held first (O_PATH: nothing is opened that could act or wait), looked at (what it is, where it really lies),
and then opened by that very handle: whoever swaps names or links meanwhile changes nothing of what is read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path, PurePosixPath

from msgspec import Struct

from hobus.bus.messages.files import FileText, Refused
from hobus.config.secret_refs import looks_secret

_NO_FILES = ("/proc", "/sys", "/dev")
"""What lies there looks like files, and is the kernel's and the processes' (their environment, for one)."""
_EVERYTHING = "*"
_SHOWN_CHARS = 200
_KEY_BYTES = 4_096
"""So much of every file is looked at for a key, also where less is shown: half a key is no text either."""
_KEY_NAMES = (
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.kdbx",
    ".env", ".env.*", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials", "credentials",
    "credentials.*", "secring.*",
)  # fmt: skip
_KEY_PLACES = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store")
_KEYS = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]){1,8}"
    r"(?:[\w-]{1,32}: ?[^\n]{0,200}\n){0,4}\s{0,8}[A-Za-z0-9+/=]{16}"
    r"|(?<![0-9A-Za-z])hobus(?:-[0-9a-f]{64}|1[a-z0-9]{100})"
)
"""A private key behind its first line, a bearer key and a join token of hobus."""
_FEW_WORDS = 4
"""So many keys or tokens, each a word, are still a file of nothing else."""


class _Refusal(Exception):
    def __init__(self, code: Refused, why: str) -> None:
        super().__init__(why)
        self.code: Refused = code


class FileReads(Struct, frozen=True):
    """Read files of this machine, except those below `closed` (the home with its record), other homes, and keys."""

    closed: tuple[str, ...]
    is_home: Callable[[Path], bool]
    """Whether a directory is the home of a cluster or of a worker."""

    def read(self, path: str, roots: Sequence[str], max_bytes: int) -> FileText:
        """Read the beginning of a text file below one of the roots (absolute, `~/…`, or `*` for all), or refuse."""
        try:
            held = self._open_held(path, roots)
            try:
                return self._read_text(path, held, roots, max_bytes)
            finally:
                os.close(held)
        except _Refusal as refusal:
            return _refuse(path, refusal)
        except OSError as error:
            return _refuse(path, _Refusal("unreadable", f"it cannot be read ({error.strerror})"))

    def _open_held(self, path: str, roots: Sequence[str]) -> int:
        """Open a descriptor that only names the file."""
        refusal = _Refusal("not_found", "no such file below the roots that are permitted")
        for place in _list_places(path, roots):
            try:
                return os.open(place, os.O_PATH | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                refusal = _Refusal("unreadable", f"it cannot be reached ({error.strerror})")
        raise refusal

    def _read_text(self, path: str, held: int, roots: Sequence[str], max_bytes: int) -> FileText:
        found = os.fstat(held)
        real = os.readlink(_name_descriptor(held))  # noqa: PTH115 - a string, as the roots are
        if not found.st_nlink:
            raise _Refusal("not_found", "it was just removed")
        if not any(_is_below(real, os.path.realpath(root)) for root in _list_absolute(roots)):
            raise _Refusal("outside", "a link leads out of the roots that are permitted (permissions.paths)")
        if any(self.is_home(parent) for parent in Path(real).parents) or any(
            _is_below(real, os.path.realpath(closed)) for closed in (*self.closed, *_NO_FILES)
        ):
            raise _Refusal(
                "outside",
                "it lies where no agent reads: the home of a cluster or worker, or files of the system itself",
            )
        if _is_for_keys(real):
            raise _Refusal("outside", "by its name or place it is for keys, which go into no prompt: copy what is none")
        if not stat.S_ISREG(found.st_mode):
            raise _Refusal("not_a_file", f"it is {_name_kind(found.st_mode)}")
        if found.st_nlink > 1:  # nobody can tell where the other names are
            raise _Refusal(
                "outside", f"it is a file with {found.st_nlink} names (hard links), so it may lie outside: copy it"
            )
        opened = os.open(_name_descriptor(held), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            head = os.pread(opened, _KEY_BYTES, 0)
            data = _read(opened, max_bytes)
            after = os.fstat(opened)
        finally:
            os.close(opened)
        has_changed = _get_version(found) != _get_version(after) or len(data) < min(max_bytes, found.st_size)
        text, kept = _decode(data, is_cut=after.st_size > len(data))
        if _holds_key(head.decode(errors="ignore")) or _holds_key(text):
            raise _Refusal("outside", "it holds a key or a token, which goes into no prompt: take it out here")
        is_cut = after.st_size > kept
        said = [f"the first {kept} of {after.st_size} bytes"] if is_cut else []
        said += ["it changed while it was read"] if has_changed else []
        return FileText(
            warning=f"{_show_path(path)}: {'; '.join(said)}" if said else "",
            path=real,
            text=text,
            digest=f"sha256:{sha256(data[:kept]).hexdigest()}",
            size_bytes=after.st_size,
            is_cut=is_cut,
        )


def _is_for_keys(path: str) -> bool:
    """Return whether programs keep keys under this name, or in this folder."""
    *folders, name = path.split("/")
    return any(fnmatch(name, pattern) for pattern in _KEY_NAMES) or not set(_KEY_PLACES).isdisjoint(folders)


def _holds_key(text: str) -> bool:
    """Return whether the text holds a private key in the usual form, or nothing but tokens of well-known services."""
    words = text.split(maxsplit=_FEW_WORDS)
    return _KEYS.search(text) is not None or (0 < len(words) <= _FEW_WORDS and all(map(looks_secret, words)))


def _list_places(path: str, roots: Sequence[str]) -> list[str]:
    """Return where the file may be, without a look at the disk: below the roots as they are written, or as they are."""
    if not path.strip() or "\0" in path or not path.isprintable():
        raise _Refusal("not_a_path", "that is not a path")
    if ".." in PurePosixPath(path).parts:
        raise _Refusal("outside", "a path must not lead upwards (`..`)")
    if not (known := _list_absolute(roots)):
        raise _Refusal("not_permitted", "the agent may read no files: name a root in its permissions.paths")
    given = os.path.expanduser(path)  # noqa: PTH111 - as the roots
    if not os.path.isabs(given):  # noqa: PTH117 - a string, as it came
        return [os.path.join(root, given) for root in known]  # noqa: PTH118
    if not any(_is_below(given, root) or _is_below(given, os.path.realpath(root)) for root in known):
        raise _Refusal("outside", "it is not below a root that is permitted (permissions.paths)")
    return [given]


def _list_absolute(roots: Sequence[str]) -> list[str]:
    """Return the absolute roots; a relative one would mean another place for every process."""
    places = ["/" if root == _EVERYTHING else os.path.expanduser(root) for root in roots]  # noqa: PTH111
    return [os.path.normpath(place) for place in places if os.path.isabs(place)]  # noqa: PTH117


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _name_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _read(descriptor: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _get_version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _decode(data: bytes, *, is_cut: bool) -> tuple[str, int]:
    """Return the text and how many bytes it is: the last character of a cut file may not be whole."""
    if b"\0" in data:
        raise _Refusal("not_text", "it is binary: it holds zero bytes")
    try:
        return data.decode(), len(data)
    except UnicodeDecodeError as error:
        if is_cut and error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode(), error.start
        raise _Refusal("not_text", f"it is not UTF-8 (byte {error.start}): convert it") from None


def _name_kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


def _refuse(path: str, refusal: _Refusal) -> FileText:
    return FileText(refused=refusal.code, warning=f"{_show_path(path)}: {refusal}")


def _show_path(path: str) -> str:
    """Return the path as people read it: short, and on one line."""
    return "".join(char if char.isprintable() else "?" for char in path[:_SHOWN_CHARS]) or "(an empty path)"
