"""Frames that no honest peer sends: made, or an honest one harmed. The same seed makes the same frames.

Bodies are made from the catalog's own schemas, so that most are nearly right. None commands what an operator may
command of a real process: names are never those of the cluster, since a valid order is no attack on a socket.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import msgpack
import msgspec

from hobus.bus.catalog import CLASSES, ROLES, ROWS, Row
from hobus.bus.codec import HEADER_MAX_BYTES, pack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.messages import control
from hobus.bus.messages.base import Message

Parts = list[bytes]

_CONTROL: dict[Kind, type[Message]] = {
    Kind.HELLO: control.Hello, Kind.READY: control.Ready, Kind.BEAT: control.Beat, Kind.CREDIT: control.Credit,
    Kind.JOIN: control.Join, Kind.TOOLS: control.AnnounceTools, Kind.CANCEL: control.Cancelled,
}  # fmt: skip
_ANSWERS = (Kind.REPLY, Kind.FAILURE, Kind.STREAM, Kind.CANCEL)
_SERVICES = sorted({row.service for row in ROWS})
_WORDS = (
    "", "x", "nobody/1@x", "a b", "\x1b[31m", "\u202e", "../../x", "\0", "é" * 20, "%s",
    "2026-11-21T22:00:00.123456Z",
)  # fmt: skip
_NUMBERS = (0, 1, -1, 2, 31, 1000, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
_DEEP = 2000
_HUGE_ONE_IN = 1000


_schema = cache(msgspec.json.schema)


class Frames:
    """What one attacker sends, who may be bound as `instance`."""

    def __init__(self, rng: random.Random, *, instance: str, services: tuple[str, ...] = (), body_max: int) -> None:
        self._rng, self._pick, self._instance, self._body_max = rng, rng.choice, instance, body_max
        self._rows = [row for row in ROWS if not services or row.service in services]
        self._services = services or (*_SERVICES, "", "nobody", "ho1/9@x")
        self._count = 0
        self._makers: dict[str, Callable[[], Parts]] = {
            "garbage": lambda: [rng.randbytes(self._pick((0, 1, 7, 60, 3000))) for _ in range(rng.randint(1, 3))],
            "truncated": self._truncated, "flipped": self._flipped, "parts": self._parts, "oversized": self._oversized,
            "versions": lambda: self._replaced(self._pick(("version", "type_version")), _NUMBERS),
            "unknown kinds": lambda: self._replaced("kind", (*range(-2, 32), *_NUMBERS)), "arity": self._arity,
            "field types": self._field_types, "forged": self._forged, "denied types": self._denied, "hellos": self._hello, "control": self._control,
            "unknown answers": self._answer, "bodies": self._body,
        }  # fmt: skip

    def one(self) -> tuple[str, Parts]:
        name = self._pick(tuple(self._makers))
        return name, self._makers[name]()

    def _truncated(self) -> Parts:
        parts, at = self._honest(), self._rng.randrange(2)
        parts[at] = parts[at][: self._rng.randrange(len(parts[at]) + 1)]
        return parts

    def _flipped(self) -> Parts:
        parts = [bytearray(part) for part in self._honest()]
        for part in (self._pick(parts) for _ in range(self._rng.randint(1, 8))):
            if part:
                part[self._rng.randrange(len(part))] ^= 1 << self._rng.randrange(8)
        return [bytes(part) for part in parts]

    def _parts(self) -> Parts:
        honest = self._honest()
        odd = ([b""], [b"", b""], [b""] * 200, honest[:1], honest * 8, honest[::-1])
        return self._pick((*odd, [b"", *honest], [*honest, b""]))

    def _oversized(self) -> Parts:
        head, body = self._honest()
        if self._rng.randrange(_HUGE_ONE_IN) == 0:
            return [head, bytes(self._body_max + self._pick((-1, 0, 1)))]
        size = self._pick((HEADER_MAX_BYTES - 512, HEADER_MAX_BYTES, HEADER_MAX_BYTES + 1, 60_000))
        which = self._pick(("key", "trace", "message_id", "type", "destination", "correlation_id"))
        wide = pack_header(self._request()._replace(**{which: "x" * self._pick((400, 401, size))}))
        return self._pick(([wide, body], [head.ljust(size, b"\0"), body], [head, body + bytes(size)]))

    def _arity(self) -> Parts:
        head, body = self._honest()
        fields = list(msgpack.unpackb(head))
        wrong = (fields[:-1], [*fields, ""], [], [fields], fields * 20, {"version": 2}, None, 2, fields[:1])
        return [_packed(self._pick(wrong)), body]

    def _field_types(self) -> Parts:
        fields: list[Any] = list(self._request())
        fields[self._rng.randrange(len(fields))] = self._junk()
        return [_packed(fields), self._honest()[1]]

    def _replaced(self, name: str, values: tuple[int, ...]) -> Parts:
        return [_packed(self._request()._replace(**{name: self._pick(values)})), self._honest()[1]]

    def _forged(self) -> Parts:
        row = self._pick(self._rows)
        other = f"{self._pick(ROLES)}/1@{self._pick(('x', 'fuzz'))}"
        frame = self._request(row)._replace(
            sender=other, principal=self._pick((other, "broker", "launcher", "x" * 401)),
            message_id=self._pick((self._id(), f"{other}:{self._rng.randrange(50)}")),
        )  # fmt: skip
        return [_packed(frame), self._body_of(row.cls)]

    def _denied(self) -> Parts:
        row, kind = self._pick(ROWS), self._pick((Kind.REQUEST, Kind.POST, Kind.PUBLISH))
        frame = self._request(row)._replace(kind=int(kind), destination=self._pick(self._services))
        return [_packed(frame), self._body_of(row.cls)]

    def _hello(self) -> Parts:
        """Somebody else's name, an old token, another role, more than one connection may say."""
        pick = self._pick
        said: dict[str, Any] = {
            "instance": pick((self._instance, "broker/1@x", "ledger/1@x", "../../1@x", "ho1/1@" + "x" * 99)),
            "token": pick(("", "0" * 64, "x" * 200, "x" * 201)), "role": pick(ROLES),
            "offers": pick(([], ["ho1"], ["broker"], ["x"] * 17)), "slots": pick((0, 1, 2**63, -1)), "version": "",
            "protocol": pick((2, 2, 2, 1, 3, -1)), "config_digest": "", "tools": [], "keys": [], "in_progress": [],
            "answered": [], "host": "",
        }  # fmt: skip
        if self._rng.random() < 0.3:
            said[pick(tuple(said))] = self._junk()
        if self._rng.random() < 0.05:
            said["keys"] = ["k"] * pick((4096, 100_000))
        return [_packed(make_header(Kind.HELLO, "", type=control.Hello.TYPE)), _packed(said)]

    def _control(self) -> Parts:
        """Bodies of control frames, at their bounds and over them. None makes a worker of the attacker."""
        kind = self._pick((Kind.READY, Kind.BEAT, Kind.CREDIT, Kind.TOOLS, Kind.JOIN, Kind.CANCEL, Kind.WELCOME))
        is_over = self._rng.random() < 0.3
        body = self._over_bound(kind) if is_over else self._body_of(_CONTROL.get(kind, control.Rehello))
        return [_packed(make_header(kind, "", type=self._pick(_WORDS), correlation_id=self._id())), body]

    def _over_bound(self, kind: Kind) -> bytes:
        pick = self._pick
        if kind == Kind.READY:
            return _packed({"state": "ready", "reason": "r" * pick((400, 401, 200_000))})
        if kind == Kind.BEAT:
            names = (f"c{n}" * pick((1, 60)) for n in range(pick((1, 63, 64, 65, 3000))))
            return _packed({"counters": {name: pick(_NUMBERS) for name in names}})
        tool = {
            "source": "builtin", "description": "d" * pick((10, 32_768, 200_000)), "parameters": "{}", "idempotent": True,
            "writes": False,
        }  # fmt: skip
        tools = [tool | {"tool_id": f"fuzz_{n}"} for n in range(pick((1, 2, 20)))]
        return _packed({"tools": tools, "sources": [], "part": pick((1, 2, 0, 2**40)), "parts": pick((1, 2, 2**40))})

    def _answer(self) -> Parts:
        """To a question that nobody asked it."""
        cls, to = CLASSES[self._pick(tuple(CLASSES))], {"correlation_id": self._id(), "destination": self._pick(_WORDS)}
        return [_packed(make_header(self._pick(_ANSWERS), self._id(), type=cls.TYPE, **to)), self._body_of(cls)]

    def _body(self) -> Parts:
        """A request that may pass, whose body is nearly right, or nothing at all."""
        role = self._instance.partition("/")[0]
        row = self._pick([row for row in self._rows if role in row.senders] or self._rows)
        body = self._body_of(row.cls) if self._rng.random() < 0.8 else _packed(self._junk())
        return [_packed(self._request(row)), b"\x91" * _DEEP + b"\xc0" if self._rng.random() < 0.1 else body]

    def _honest(self) -> Parts:
        row = self._pick(self._rows)
        return [pack_header(self._request(row)), self._body_of(row.cls, harm=0.0)]

    def _request(self, row: Row | None = None) -> Header:
        to = row.service if row else self._pick(self._services)
        return make_header(
            Kind.REQUEST, self._id(), type=(row or self._pick(self._rows)).cls.TYPE, destination=to,
            deadline_ms=self._pick((0, 50, 500)), key=self._pick(("", "", "k", self._pick(_WORDS))),
        )  # fmt: skip

    def _id(self) -> str:
        self._count += 1
        return f"{self._instance or 'fuzz'}:{self._pick((self._count, 1, 10**9))}"

    def _body_of(self, cls: type[Message], *, harm: float = 0.06) -> bytes:
        schema = _schema(cls)
        return _packed(self._value(schema, schema.get("$defs", {}), harm, 0))

    def _value(self, schema: dict[str, Any], defs: dict[str, Any], harm: float, depth: int) -> Any:
        """One that fits the JSON Schema, but for `harm` of its places."""
        rng = self._rng
        if rng.random() < harm:
            return self._junk()
        if "$ref" in schema:
            return self._value(defs[schema["$ref"].rpartition("/")[2]], defs, harm, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self._value(rng.choice(schema[union]), defs, harm, depth)
        kind = schema.get("type")
        if kind == "object" and "properties" in schema:
            required = schema.get("required", ())
            said = {
                name: self._value(field, defs, harm, depth + 1)
                for name, field in schema["properties"].items()
                if (name in required) == (rng.random() >= harm) or rng.random() < 0.3
            }
            return said | ({self._pick(_WORDS): self._junk()} if rng.random() < harm else {})
        if kind == "array":
            count = 0 if depth > 4 else rng.choice((schema.get("minItems", 0), 1, 2))
            return [self._value(schema.get("items", {}), defs, harm, depth + 1) for _ in range(count)]
        if kind == "string":
            if "contentEncoding" in schema:
                return rng.randbytes(rng.choice((0, 1, 32, 100)))
            full = "x" * (min(schema.get("maxLength", 8), 10_000) + (rng.random() < harm))
            return rng.choice((self._pick(_WORDS), full))
        if kind == "integer":
            return rng.choice((schema.get("minimum", 0), schema.get("maximum", 9), 1))
        return {"number": 0.5, "boolean": rng.random() < 0.5, "null": None}.get(str(kind), {"k": self._pick(_WORDS)})

    def _junk(self) -> Any:
        return self._pick(
            (None, True, 1.5, float("nan"), float("inf"), b"\xff\xfe", b"", [], {}, [[]], {"": None}, {1: 2}, [0] * 300,
             self._pick(_WORDS), "x" * 5000, self._pick(_NUMBERS), msgpack.ExtType(1, b"x"), msgpack.Timestamp(1, 1))
        )  # fmt: skip


def _packed(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True) or b""


assert HEADER_VERSION == 2, "the hellos made here say 2"


def subscription(rng: random.Random) -> Parts:
    """What a tap hears: topics, questions to its ring, and nonsense."""
    verb = rng.choice((b"\1", b"\1", b"\0", b"\2", b"", b"\xff"))
    seconds = rng.choice((b"1", b"60", b"-1", b"nan", b"inf", b"1e999", b"", b"0", "\uff11".encode(), b"1" * 300))
    topic = rng.choice((b"t", b"b", b"r", b"R", b"", b"r:" + seconds, b"r%d:" % rng.randrange(10**6) + seconds,
                        b"R%d:" % rng.randrange(10**6) + seconds, rng.randbytes(40), bytes(300)))  # fmt: skip
    return [verb + topic] if rng.random() < 0.9 else [verb, topic]


_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00"


def wire(rng: random.Random) -> bytes:
    """Bytes below the frames: a greeting of ZMTP, a handshake, and lengths that are not true."""
    greeting = (_GREETING + rng.choice((b"NULL", b"CURVE", b"PLAIN")).ljust(20, b"\0")).ljust(64, b"\0")
    ready = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06" + rng.choice((b"DEALER", b"XSUB\0\0", b"\xff" * 6))
    shake = rng.choice((ready, b"", b"\x04\x02\x05E", rng.randbytes(30)))
    lies = (b"\x02\x7f" + b"\xff" * 7, b"\x00\xff", b"\x06" + bytes(8), b"\x01\x00" * 50, b"\x04\x05\x04PING")
    data = bytearray(greeting + shake + rng.choice(lies) + rng.randbytes(rng.choice((0, 9, 500))))
    if rng.random() < 0.5:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data[: rng.choice((len(data), rng.randrange(len(data)) + 1))])


def command_line(rng: random.Random) -> bytes:
    fields = rng.choice(('"actor": "nobody/9", "then": "stay"', '"role": "nobody", "count": 1', '"role": "ho1", "count": 0', '"actor": 1',
                         '"role": "ho1", "count": 1e400', '"actor": "\\ud800", "then": "stay"', '"actor": "' + "x" * 5000 + '"'))  # fmt: skip
    data = f'{{"command": "{rng.choice(("scale", "leave", "bus.hello", chr(92) + "u0000"))}", {fields}}}'.encode()
    nonsense = (data[: rng.randrange(len(data))], rng.randbytes(200), b"", b"[" * 5000, b"\xff" + data, bytes(100_000))
    return rng.choice((data, data, *nonsense))
