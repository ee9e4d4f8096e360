"""Tokens of incarnations: the launcher mints one per child, servers compare hashes, nobody can read a secret back.

`<state directory>/tokens/<name>.json`, directory 0700, file 0600: SHA-256 of the secret, instance, role, pid and the
start time of that process (a reused pid is not the process the token was made for). A token is valid while its file
is there and, if a pid was named, while that very process lives. Minting for a new incarnation of a name ends the
older ones of that name.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

from hobus.bus.clock import SystemClock
from hobus.bus.disk import write_private
from hobus.bus.envelope import HEADER_VERSION
from hobus.bus.errors import ConfigError
from hobus.bus.lanes import INSTANCE_PATTERN
from hobus.bus.messages.base import Record
from hobus.bus.messages.control import Hello, Refused

_FOLDER = "tokens"
_SUFFIX = ".json"


class _Token(Record):
    instance: str
    role: str
    hash: str
    pid: int | None
    started: str | None

    def is_of_the_living(self) -> bool:
        return self.pid is None or _start_time(self.pid) == self.started


def mint(state_dir: Path, instance: str, role: str, pid: int | None) -> str:
    """Mint a token for this incarnation: return the secret, keep its hash on disk.

    Raises ConfigError for a name that is not an instance's, FileNotFoundError without the state directory: whoever was
    made to look for a cluster there would find none.
    """
    match = INSTANCE_PATTERN.fullmatch(instance)
    if match is None or match["role"] != role:
        raise ConfigError(f"no token for {instance[:160]!r}: an instance is `<role>/<n>@<epoch>` with role {role!r}")
    folder = state_dir / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    secret = SystemClock().secret()
    started = _start_time(pid) if pid is not None else None
    token = _Token(instance=instance, role=role, hash=_hash_secret(secret), pid=pid, started=started)
    path = folder / _name_file(instance)
    of_its_name = path.name.partition("@")[0] + "@"
    for name in _names(folder):
        if name.startswith(of_its_name) and name != path.name:
            (folder / name).unlink(missing_ok=True)
    write_private(path, token.model_dump_json().encode(), is_durable=False)
    return secret


def revoke(state_dir: Path, instance: str) -> None:
    """Refuse this incarnation's token from now on."""
    (state_dir / _FOLDER / _name_file(instance)).unlink(missing_ok=True)


class TokenDirectory:
    """What a server asks at each hello."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / _FOLDER

    def authenticate(self, hello: Hello) -> Refused | None:
        """Return None if the token was made for this incarnation, which lives; else the refusal with the fix."""
        if INSTANCE_PATTERN.fullmatch(hello.instance) is None:
            return Refused(code="malformed", detail="the instance is not `<role>/<n>@<epoch>`")
        try:
            token = _Token.model_validate_json((self._folder / _name_file(hello.instance)).read_bytes())
        except FileNotFoundError:
            return self._refuse_bad(hello, "there is no token for this incarnation: start it through the launcher")
        except (OSError, ValueError) as error:
            return self._refuse_bad(
                hello, f"its token file cannot be read ({type(error).__name__}): restart this process"
            )
        if not hmac.compare_digest(token.hash, _hash_secret(hello.token)) or token.instance != hello.instance:
            return self._refuse_bad(hello, "the token is not the one made for this incarnation")
        if token.role != hello.role:
            return Refused(code="role_mismatch", detail=f"the token of {hello.instance} is for another role")
        if token.started is not None and not token.is_of_the_living():
            return self._refuse_bad(hello, "the process that the token was made for is gone")
        return None

    def living(self) -> list[str]:
        """Return every incarnation that a token was made for and whose process lives."""
        found: list[str] = []
        for name in sorted(_names(self._folder)):
            try:
                token = _Token.model_validate_json((self._folder / name).read_bytes())
            except (OSError, ValueError):
                continue
            if token.is_of_the_living():
                found.append(token.instance)
        return found

    def _refuse_bad(self, hello: Hello, why: str) -> Refused:
        return Refused(code="bad_token", detail=f"{hello.instance}: {why}")


def refuses_a_stranger(authenticate: Callable[[Hello], Refused | None]) -> bool:
    """Test that a random token is refused, without which a server must not start."""
    clock = SystemClock()
    stranger = Hello(
        instance=f"ho1/1@{clock.secret()[:12]}",
        token=clock.secret(),
        role="ho1",
        slots=1,
        version="",
        protocol=HEADER_VERSION,
    )
    return authenticate(stranger) is not None


def _names(folder: Path) -> list[str]:
    """Return the names of all tokens; none where there is no such directory."""
    try:
        # A glob pattern would be compiled for each question.
        return [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]  # noqa: PTH208
    except OSError:
        return []


def _name_file(instance: str) -> str:
    return instance.replace("/", "+") + _SUFFIX


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _start_time(pid: int) -> str | None:
    """Return the kernel's start time of a process; None if it cannot be known, '' if no such process lives."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()  # a decoder of its own would first have to be loaded
    except FileNotFoundError:
        return "" if Path("/proc/self/stat").exists() else None
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
