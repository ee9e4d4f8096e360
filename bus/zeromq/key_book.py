"""The keys that may connect from elsewhere: join tokens and enrolled workers, as files below `<home>/keys`.

    broker.key            the broker's own secret, made once; survives restarts, so that tokens and workers stay good
    tokens/<id>.json      a join token: hash of its public key, role, end, number of uses, whether it is revoked
    enrolled/<n>.json     a worker, which is one use of its token: its public key, those before, whether it is revoked,
                          until when it is to enrol another; never removed, so that no number or key is given again

Directories 0700, files 0600, each written whole and synced before anybody is answered. The broker's process is the only
writer while it runs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TypeVar

import structlog

from hobus.bus import disk, limits
from hobus.bus.broker.records import Noted
from hobus.bus.envelope import HEADER_VERSION
from hobus.bus.errors import BusError
from hobus.bus.messages.base import Record
from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Refused, TokenCreated
from hobus.bus.messages.ids import format_iso
from hobus.bus.record.payloads.governance import KeyEnrolled, KeyRefused, KeyRevoked, TokenMade
from hobus.bus.zeromq import curve

_TOKENS, _ENROLLED, _BROKER_KEY = "tokens", "enrolled", "broker.key"
R = TypeVar("R", bound=Record)
_log = structlog.get_logger()


class TokenFile(Record):
    """One join token; its secret half is nowhere here."""

    token_id: str
    key_hash: str
    role: str
    uses: int
    created_at_us: int
    expires_at_us: int
    gone_s: int = 0
    """A worker's key is revoked once it was gone for so long, and its use is free again; 0: for good."""
    is_revoked: bool = False

    @property
    def key(self) -> str:
        return f"key:{self.key_hash[:16]}"


class WorkerFile(Record):
    """One enrolled worker."""

    name: str
    role: str
    public_key: str
    token_id: str
    host: str
    version: str
    enrolled_at_us: int
    gone_s: int = 0  # its token's
    before: tuple[str, ...] = ()  # fingerprints of the keys before this one
    ends_at_us: int = 0
    """Its worker is to enrol another key in its place, at the latest then; 0: it has no end."""
    is_revoked: bool = False

    @property
    def fingerprint(self) -> str:
        return curve.compute_fingerprint(self.public_key.encode())

    @property
    def ended(self) -> list[str]:
        """Return the fingerprints of its keys that are good no longer."""
        return [*self.before, *([self.fingerprint] * self.is_revoked)]


class KeyFiles:
    """The keys of one home, as its broker asks for them."""

    def __init__(self, folder: Path, *, version: str, config_digest: str) -> None:
        """Read everything; skip damaged tokens and workers. Raises ConfigError for a damaged broker key, OSError."""
        self._folder = disk.make_private_folder(folder)
        self._version = version
        self._digest = config_digest
        self.pair = curve.keep_pair(folder / _BROKER_KEY)
        self.listens = ""
        tokens = _read_all(folder / _TOKENS, TokenFile)
        self._tokens = {token.key_hash: token for token in tokens if not token.is_revoked}
        self._enrolled: dict[str, WorkerFile] = {}  # by name, revoked ones too
        self._workers: dict[str, WorkerFile] = {}  # by public key
        self._ended: set[str] = set()  # fingerprints
        for one in enrolled_in(folder):
            self._go_by(one)
        damaged_too = (folder / _ENROLLED).glob("[!.]*.json")
        self._newest = max((_get_number(path.stem) for path in damaged_too), default=0)
        self._gone_since: dict[str, float] = {}
        self._records = [_make_token_record(token) for token in tokens]
        self._records += [_make_revoked_record(token, token.key) for token in tokens if token.is_revoked]
        self._records += [_make_worker_record(one) for one in self._workers.values()]
        self._records += [_make_revoked_record(one, key) for one in self._enrolled.values() for key in one.ended]

    def knows(self, public: bytes) -> bool:
        """Return whether a connection with this key (Z85) may speak at all; one of a spent token may, to be told so."""
        return public.decode("ascii", "replace") in self._workers or _hash_key(public) in self._tokens

    def use_snapshot(self, digest: str) -> None:
        """Require this snapshot from now on; who is connected already hears of it as everybody does."""
        self._digest = digest

    def take_records(self) -> list[Noted]:
        """Return what is to be recorded since the last call; at first everything known."""
        records, self._records = self._records, []
        return records

    # --- hello ------------------------------------------------------------------------------------------------------

    def authenticate(self, hello: Hello, key: str) -> Refused | None:
        """Return None if this key is enrolled as who the hello says, and may do what the hello offers; else why not."""
        worker = self._workers.get(key)
        if worker is None:
            return Refused(code="not_enrolled", detail="a token's key works for joining only: hobus worker join TOKEN")
        if hello.role != worker.role or hello.instance.partition("@")[0] != worker.name:
            why = f"{worker.fingerprint} is enrolled as {worker.name}, as no other"
            return Refused(code="role_mismatch", detail=why)
        if hello.version != self._version:
            return self._refuse_version(hello.version)
        if hello.offers and hello.config_digest != self._digest:
            runs_under = hello.config_digest[:80] or "no snapshot"
            why = f"{worker.name} runs under {runs_under}, the cluster under {self._digest}: fetch that one first"
            return Refused(code="other_config", detail=why)
        self._gone_since.pop(worker.name, None)
        return None

    # --- join -------------------------------------------------------------------------------------------------------

    def join(self, join: Join, key: str, now: float) -> Joined | Refused:
        """Enrol the worker's own key durably; asking again with the same key gives the same answer.

        `key`: a token's; or the worker's own, which is being rotated.
        """
        if (known := self._workers.get(key)) is not None:
            return self._join_anew(known, join, now)
        token = self._tokens.get(_hash_key(key.encode()))
        refused = self._find_refusal(join, key, token, now)
        if refused is not None:
            facts = KeyRefused(_show_key(join.public_key), token=token.token_id if token else "")
            self._records.append(Noted("KEY_REFUSED", "REJECTED", refused.code, facts))
            return refused
        worker = self._workers.get(join.public_key)
        if worker is None and token is not None:
            worker = WorkerFile(
                name=f"{token.role}/remote-{self._newest + 1}", role=token.role, public_key=join.public_key,
                token_id=token.token_id, host=join.host, version=join.version, enrolled_at_us=round(now * 1_000_000),
                gone_s=token.gone_s,
            )  # fmt: skip
            if refused := self._unstored(worker):
                return refused
            self._newest += 1
            self._records.append(_make_worker_record(worker))
        assert worker is not None  # noqa: S101 - a refusal otherwise
        return Joined(name=worker.name, config_digest=self._digest)

    def _find_refusal(self, join: Join, key: str, token: TokenFile | None, now: float) -> Refused | None:
        if join.protocol != HEADER_VERSION:
            why = f"the worker speaks protocol {join.protocol}, this cluster {HEADER_VERSION}: use one version"
            return Refused(code="bad_protocol", detail=why)
        if join.version != self._version:
            return self._refuse_version(join.version)
        if why := self._explain_unfit(join.public_key, key):
            return Refused(code="malformed", detail=f"the key to enrol is {why}")
        if join.public_key in self._workers:
            return None  # its answer was lost
        fingerprint = curve.compute_fingerprint(join.public_key.encode())
        if fingerprint in self._ended:
            why = f"{fingerprint} was revoked: join with a key of its own, in a new directory"
            return Refused(code="not_enrolled", detail=why)
        if token is None:
            return Refused(code="bad_token", detail="this connection's key is no join token's, or was revoked")
        if join.role != token.role:
            return Refused(code="role_mismatch", detail=f"{token.token_id} is for {token.role} alone")
        if now * 1_000_000 >= token.expires_at_us:
            why = f"{token.token_id} expired at {format_iso(token.expires_at_us / 1_000_000)}: make a new one"
            return Refused(code="token_expired", detail=why)
        if count_used(token, self._enrolled.values()) >= token.uses:
            workers = f"worker{'s' * (token.uses > 1)}{' at once' * bool(token.gone_s)}"
            why = f"{token.token_id} was good for {token.uses} {workers} and is used up: make a new one"
            return Refused(code="token_used", detail=why)
        return None

    def _join_anew(self, worker: WorkerFile, join: Join, now: float) -> Joined | Refused:
        """Enrol the key that takes this one's place; this one is let in no more, and stays where it is connected.

        A worker that did not hear of it comes with the other one when this one is refused.
        """
        if not worker.ends_at_us:
            return Refused(code="bad_token", detail=f"{worker.name} has joined already, and no rotation was requested")
        why = self._explain_unfit(join.public_key, worker.public_key)
        if why or join.public_key in self._workers:
            return Refused(code="malformed", detail=f"the key to enrol is {why or 'of another worker'}")
        anew = worker.model_copy(
            update={
                "public_key": join.public_key, "host": join.host, "enrolled_at_us": round(now * 1_000_000),
                "before": (*worker.before, worker.fingerprint), "ends_at_us": 0,
            }
        )  # fmt: skip
        if anew.fingerprint in self._ended:
            return Refused(code="not_enrolled", detail=f"{anew.fingerprint} was revoked: make another one")
        if refused := self._unstored(anew):
            return refused
        self._records += [_make_worker_record(anew), _make_revoked_record(anew, worker.fingerprint)]
        return Joined(name=worker.name, config_digest=self._digest)

    def _explain_unfit(self, public: str, key: str) -> str:
        """Return why no worker can have this key; "" if one can."""
        if public in (key, self.pair.public.decode()) or _hash_key(public.encode()) in self._tokens:
            return "another's: a worker makes one for itself"
        return "" if _is_key(public) else "none: 40 characters of Z85"

    def _refuse_version(self, version: str) -> Refused:
        why = f"the worker runs hobus {version[:64]!r}, this cluster {self._version!r}: install one version"
        return Refused(code="bad_version", detail=why)

    def _unstored(self, worker: WorkerFile) -> Refused | None:
        """Store it durably and go by it; return why that cannot be."""
        try:
            _write(self._folder / _ENROLLED / f"{_shorten_name(worker.name)}.json", worker)
        except OSError as error:  # written or not: the same is asked again, or found at the next start
            return Refused(code="unavailable", detail=f"the cluster could not store the key: {error.strerror}")
        self._go_by(worker)
        return None

    def _go_by(self, worker: WorkerFile) -> None:
        if (before := self._enrolled.get(worker.name)) is not None:
            self._workers.pop(before.public_key, None)
        self._enrolled[worker.name] = worker
        if not worker.is_revoked:
            self._workers[worker.public_key] = worker
        self._ended.update(worker.ended)

    # --- taking back ------------------------------------------------------------------------------------------------

    def revoke(self, name: str) -> str:
        """Take back the public key of this worker, durably, and return it; it is let in no more. Raises BusError.

        Of a token by its id nobody knows that key, and nobody is left who has joined by it: "" is returned.
        """
        if token := next((one for one in self._tokens.values() if one.token_id == name), None):
            try:
                ended = token.model_copy(update={"is_revoked": True})
                _write(self._folder / _TOKENS / f"{token.token_id}.json", ended)
            except OSError as error:
                raise BusError("unavailable", f"that could not be stored: {error.strerror}") from error
            del self._tokens[token.key_hash]
            self._records.append(_make_revoked_record(token, token.key))
            return ""
        revoked = self._change(name, is_revoked=True)
        self._gone_since.pop(name, None)
        self._records.append(_make_revoked_record(revoked, revoked.fingerprint))
        return revoked.public_key

    def rotate(self, name: str, ends_at: float) -> None:
        """Let a worker enrol another key until then (wall seconds), else it loses the one that it has.

        Raises BusError.
        """
        self._change(name, ends_at_us=round(ends_at * 1_000_000))

    def _change(self, name: str, **changes: int) -> WorkerFile:
        worker = self._enrolled.get(name)
        if worker is None or worker.is_revoked:
            raise BusError("not_found", f"no worker {name[:80]!r} is enrolled; see `hobus keys list`")
        changed = worker.model_copy(update=changes)
        if refused := self._unstored(changed):
            raise BusError(refused.code, refused.detail)
        return changed

    def is_rotating(self, key: str) -> bool:
        """Whether its worker is to enrol another key."""
        worker = self._workers.get(key)
        return worker is not None and worker.ends_at_us > 0

    def list_overdue(self, connected: Container[str], now: float, wall: float) -> list[str]:
        """Return workers not `connected` for as long as their token says (`now`: monotonic), or not rotated in time."""
        found: list[str] = []
        for worker in self._workers.values():
            if is_here := not worker.gone_s or worker.name in connected:
                self._gone_since.pop(worker.name, None)
            is_gone = not is_here and now - self._gone_since.setdefault(worker.name, now) >= worker.gone_s
            if is_gone or 0 < worker.ends_at_us <= wall * 1_000_000:
                found.append(worker.name)
        return found

    # --- tokens -----------------------------------------------------------------------------------------------------

    def create_token(self, wanted: CreateToken, now: float) -> TokenCreated:
        """Create a token durably; asked again, the same answer. Raises BusError."""
        if not _is_key(wanted.public_key):
            raise BusError("malformed", "the token's public key is none")
        if beyond := find_excess_bound(wanted.ttl_s, wanted.uses):
            raise BusError("rejected", beyond)
        key_hash = _hash_key(wanted.public_key.encode())
        token = self._tokens.get(key_hash) or self._make_token(key_hash, wanted, now)
        return TokenCreated(
            token_id=token.token_id, address=self.listens, broker_key=self.pair.public.decode(),
            expires_at_us=token.expires_at_us,
        )  # fmt: skip

    def _make_token(self, key_hash: str, wanted: CreateToken, now: float) -> TokenFile:
        token = TokenFile(
            token_id=f"join-{key_hash[:12]}", key_hash=key_hash, role=wanted.role, uses=wanted.uses,
            created_at_us=round(now * 1_000_000), expires_at_us=round((now + wanted.ttl_s) * 1_000_000),
            gone_s=wanted.gone_s,
        )  # fmt: skip
        try:
            _write(self._folder / _TOKENS / f"{token.token_id}.json", token)
        except OSError as error:
            raise BusError("unavailable", f"the token could not be stored: {error.strerror}") from error
        self._tokens[key_hash] = token
        self._records.append(_make_token_record(token))
        return token


def find_excess_bound(ttl_s: int, uses: int) -> str:
    """Return what of a token exceeds its bound, and the bound; empty: nothing."""
    if ttl_s > limits.JOIN_TTL_MAX_S:
        return f"--ttl: at most {limits.JOIN_TTL_MAX_S // 86_400} days"
    return f"--uses {str(uses)[:40]}: at most {limits.JOIN_USES_MAX}" if uses > limits.JOIN_USES_MAX else ""


def read_tokens(folder: Path) -> list[TokenFile]:
    """Return all join tokens that are not revoked, oldest first."""
    valid = [token for token in _read_all(folder / _TOKENS, TokenFile) if not token.is_revoked]
    return sorted(valid, key=lambda token: (token.created_at_us, token.token_id))


def enrolled_in(folder: Path) -> list[WorkerFile]:
    """Return all workers that were ever enrolled, oldest first."""
    return sorted(_read_all(folder / _ENROLLED, WorkerFile), key=lambda worker: _get_number(worker.name))


def read_workers(folder: Path) -> list[WorkerFile]:
    """Return all whose key is good, oldest first."""
    return [worker for worker in enrolled_in(folder) if not worker.is_revoked]


def list_damaged(folder: Path) -> list[Path]:
    """Return unreadable files of tokens and workers: whom they named is not let in."""
    kinds = ((_TOKENS, TokenFile), (_ENROLLED, WorkerFile))
    return [path for name, cls in kinds for path in _list_files(folder / name) if _read(path, cls) is None]


def count_used(token: TokenFile, enrolled: Iterable[WorkerFile]) -> int:
    """Return how many workers came by this token; of an ephemeral one, how many of them are left."""
    return sum(one.token_id == token.token_id and not (token.gone_s and one.is_revoked) for one in enrolled)


def _write(path: Path, record: Record) -> None:
    disk.write_private(path, record.model_dump_json().encode() + b"\n")


def forget_all(folder: Path) -> None:
    """Forget the keys of a copied home, whose original goes by these: its broker gets another key. Raises OSError."""
    (folder / _BROKER_KEY).unlink(missing_ok=True)
    for name in (_TOKENS, _ENROLLED):
        shutil.rmtree(folder / name, ignore_errors=True)


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!.]*.json"))


def _read_all(folder: Path, cls: type[R]) -> list[R]:
    found: list[R] = []
    for path in _list_files(folder):
        record = _read(path, cls)
        if record is None:
            _log.warning("key_file_damaged", file=str(path))
        else:
            found.append(record)
    return found


def _read(path: Path, cls: type[R]) -> R | None:
    try:
        return cls.model_validate_json(path.read_bytes())
    except ValueError:
        return None


def _shorten_name(name: str) -> str:
    return name.partition("/")[2]


def _hash_key(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()


def _is_key(public: str) -> bool:
    try:
        curve.decode_key(public.encode())
    except ValueError:
        return False
    return True


def _show_key(public: str) -> str:
    return curve.compute_fingerprint(public.encode()) if _is_key(public) else ""


def _get_number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def _make_token_record(token: TokenFile) -> Noted:
    facts = TokenMade(token.token_id, token.role, token.uses, token.created_at_us, token.expires_at_us)
    return Noted("TOKEN_CREATED", "", "", facts, submission_id=f"TOKEN_CREATED:{token.token_id}")


def _make_worker_record(worker: WorkerFile) -> Noted:
    facts = KeyEnrolled(
        worker.fingerprint, worker.name, worker.role, worker.token_id, worker.host, worker.version,
        worker.enrolled_at_us, worker.before[-1] if worker.before else "",
    )  # fmt: skip
    return Noted("KEY_ENROLLED", "ACCEPTED", "", facts, submission_id=f"KEY_ENROLLED:{worker.fingerprint}")


def _make_revoked_record(of: WorkerFile | TokenFile, key: str) -> Noted:
    facts = KeyRevoked(key, _shorten_name(of.name) if isinstance(of, WorkerFile) else "", of.token_id)
    return Noted("KEY_REVOKED", "", "", facts, submission_id=f"KEY_REVOKED:{key}")
