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

from hobus.bus.catalog import CLASSES, ROLES, ROWS
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
    "",
    "x",
    "nobody/1@x",
    "a b",
    "\x1b[31m",
    "\u202e",
    "../../x",
    "\0",
    "é" * 20,
    "%s",
    "2026-11-21T22:00:00.123456Z",
)
_NUMBERS = (0, 1, -1, 2, 31, 1000, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
_DEEP = 2000
_HUGE_ONE_IN = 1000


@cache
def _schema(cls: type[Message]) -> dict[str, Any]:
    return msgspec.json.schema(cls)


class Frames:
    """What one attacker sends, who may be bound as `instance`."""

    def __init__(self, rng: random.Random, *, instance: str, services: tuple[str, ...] = (), body_max: int) -> None:
        self._rng = rng
        self._instance = instance
        self._role = instance.partition("/")[0]
        self._rows = [row for row in ROWS if not services or row.service in services]
        self._services = services or (*_SERVICES, "", "nobody", "ho1/9@x")
        self._body_max = body_max
        self._count = 0
        self._makers: dict[str, Callable[[], Parts]] = {
            "garbage": self._garbage, "truncated": self._truncated, "flipped": self._flipped, "parts": self._parts,
            "oversized": self._oversized, "arity": self._arity, "field types": self._field_types,
            "versions": self._versions, "forged": self._forged, "denied types": self._denied,
            "unknown kinds": self._kinds, "hellos": self._hello, "control": self._control,
            "unknown answers": self._answer, "bodies": self._body,
        }  # fmt: skip

    def one(self) -> tuple[str, Parts]:
        """Name of its kind, and the parts."""
        name = self._rng.choice(tuple(self._makers))
        return name, self._makers[name]()

    # --- kinds ------------------------------------------------------------------------------------------------------

    def _garbage(self) -> Parts:
        return [self._rng.randbytes(self._rng.choice((0, 1, 7, 60, 3000))) for _ in range(self._rng.randint(1, 3))]

    def _truncated(self) -> Parts:
        parts = self._honest()
        at = self._rng.randrange(2)
        parts[at] = parts[at][: self._rng.randrange(len(parts[at]) + 1)]
        return parts

    def _flipped(self) -> Parts:
        parts = [bytearray(part) for part in self._honest()]
        for _ in range(self._rng.randint(1, 8)):
            part = self._rng.choice(parts)
            if part:
                part[self._rng.randrange(len(part))] ^= 1 << self._rng.randrange(8)
        return [bytes(part) for part in parts]

    def _parts(self) -> Parts:
        honest = self._honest()
        return self._rng.choice(
            ([honest[0]], [b""], [b"", b""], [b"", *honest], [*honest, b""], honest * 8, [b""] * 200, honest[::-1])
        )

    def _oversized(self) -> Parts:
        head, body = self._honest()
        if self._rng.randrange(_HUGE_ONE_IN) == 0:
            return [head, bytes(self._body_max + self._rng.choice((-1, 0, 1)))]
        size = self._rng.choice((HEADER_MAX_BYTES - 512, HEADER_MAX_BYTES, HEADER_MAX_BYTES + 1, 60_000))
        which = self._rng.choice(("key", "trace", "message_id", "type", "destination", "correlation_id"))
        wide = self._request()._replace(**{which: "x" * self._rng.choice((400, 401, size))})
        return self._rng.choice(
            ([pack_header(wide), body], [head.ljust(size, b"\0"), body], [head, body + bytes(size)])
        )

    def _arity(self) -> Parts:
        head, body = self._honest()
        fields = list(msgpack.unpackb(head))
        wrong = (fields[:-1], [*fields, ""], [], [fields], fields * 20, {"version": 2}, None, 2, fields[:1])
        return [self._packed(self._rng.choice(wrong)), body]

    def _field_types(self) -> Parts:
        fields: list[Any] = list(self._request())
        fields[self._rng.randrange(len(fields))] = self._junk()
        return [self._packed(fields), self._honest()[1]]

    def _versions(self) -> Parts:
        if self._rng.random() < 0.5:
            return [self._packed(self._request()._replace(version=self._number())), b"\x80"]
        return [self._packed(self._request()._replace(type_version=self._number())), b"\x80"]

    def _forged(self) -> Parts:
        row = self._rng.choice(self._rows)
        other = f"{self._rng.choice(ROLES)}/1@{self._rng.choice(('x', 'fuzz'))}"
        frame = self._request(row.cls.TYPE, row.service)._replace(
            sender=other, principal=self._rng.choice((other, "broker", "launcher", "x" * 401))
        )
        if self._rng.random() < 0.5:
            frame = frame._replace(message_id=f"{other}:{self._rng.randrange(50)}")
        return [self._packed(frame), self._body_of(row.cls)]

    def _denied(self) -> Parts:
        row = self._rng.choice(ROWS)
        frame = self._request(row.cls.TYPE, self._rng.choice(self._services))
        kind = self._rng.choice((Kind.REQUEST, Kind.POST, Kind.PUBLISH))
        return [self._packed(frame._replace(kind=int(kind))), self._body_of(row.cls)]

    def _kinds(self) -> Parts:
        kind = self._rng.choice((*range(-2, 32), *_NUMBERS))
        return [self._packed(self._request()._replace(kind=kind)), self._honest()[1]]

    def _hello(self) -> Parts:
        """Somebody else's name, an old token, another role, more than one connection may say."""
        said: dict[str, Any] = {
            "instance": self._rng.choice((self._instance, "broker/1@x", "ledger/1@x", "../../1@x", "ho1/1@" + "x" * 99)),
            "token": self._rng.choice(("", "0" * 64, "x" * 200, "x" * 201)),
            "role": self._rng.choice(ROLES), "offers": self._rng.choice(([], ["ho1"], ["broker"], ["x"] * 17)),
            "slots": self._rng.choice((0, 1, 2**63, -1)), "version": "", "protocol": self._rng.choice((2, 2, 2, 1, 3, -1)),
            "config_digest": "", "tools": [], "keys": [], "in_progress": [], "answered": [], "host": "",
        }  # fmt: skip
        if self._rng.random() < 0.3:
            said[self._rng.choice(tuple(said))] = self._junk()
        if self._rng.random() < 0.05:
            said["keys"] = ["k"] * self._rng.choice((4096, 100_000))
        return [self._packed(make_header(Kind.HELLO, "", type=control.Hello.TYPE)), self._packed(said)]

    def _control(self) -> Parts:
        """Bodies of control frames, at their bounds and over them. None makes a worker of the attacker."""
        kind = self._rng.choice((Kind.READY, Kind.BEAT, Kind.CREDIT, Kind.TOOLS, Kind.JOIN, Kind.CANCEL, Kind.WELCOME))
        if self._rng.random() < 0.3:
            body = self._over_bound(kind)
        else:
            body = self._body_of(_CONTROL.get(kind, control.Rehello))
        return [self._packed(make_header(kind, "", type=self._word(), correlation_id=self._id())), body]

    def _over_bound(self, kind: Kind) -> bytes:
        many = self._rng.choice((1, 63, 64, 65, 3000))
        if kind == Kind.READY:
            return self._packed({"state": "ready", "reason": "r" * self._rng.choice((400, 401, 200_000))})
        if kind == Kind.BEAT:
            return self._packed(
                {"counters": {f"c{n}" * self._rng.choice((1, 60)): self._number() for n in range(many)}}
            )
        tool = {
            "tool_id": "t", "source": "builtin", "description": "d" * self._rng.choice((10, 32_768, 200_000)),
            "parameters": "{}", "idempotent": True, "writes": False,
        }  # fmt: skip
        tools = [tool | {"tool_id": f"fuzz_{n}"} for n in range(self._rng.choice((1, 2, 20)))]
        part = self._rng.choice((1, 2, 0, 2**40))
        return self._packed({"tools": tools, "sources": [], "part": part, "parts": self._rng.choice((1, 2, 2**40))})

    def _answer(self) -> Parts:
        """To a question that nobody asked it."""
        cls = CLASSES[self._rng.choice(tuple(CLASSES))]
        frame = make_header(
            self._rng.choice(_ANSWERS), self._id(), correlation_id=self._id(), type=cls.TYPE, destination=self._word()
        )
        return [self._packed(frame), self._body_of(cls)]

    def _body(self) -> Parts:
        """A request that may pass, whose body is nearly right, or nothing at all."""
        rows = [row for row in self._rows if self._role in row.senders] or self._rows
        row = self._rng.choice(rows)
        body = self._body_of(row.cls) if self._rng.random() < 0.8 else self._packed(self._junk())
        if self._rng.random() < 0.1:
            body = b"\x91" * _DEEP + b"\xc0"
        return [self._packed(self._request(row.cls.TYPE, row.service)), body]

    # --- what they are made of --------------------------------------------------------------------------------------

    def _honest(self) -> Parts:
        row = self._rng.choice(self._rows)
        return [pack_header(self._request(row.cls.TYPE, row.service)), self._body_of(row.cls, harm=0.0)]

    def _request(self, type_: str = "", service: str = "") -> Header:
        return make_header(
            Kind.REQUEST, self._id(), type=type_ or self._rng.choice(self._rows).cls.TYPE,
            destination=service or self._rng.choice(self._services), deadline_ms=self._rng.choice((0, 50, 500)),
            key=self._rng.choice(("", "", "k", self._word())),
        )  # fmt: skip

    def _id(self) -> str:
        self._count += 1
        return f"{self._instance or 'fuzz'}:{self._rng.choice((self._count, 1, 10**9))}"

    def _body_of(self, cls: type[Message], *, harm: float = 0.06) -> bytes:
        schema = _schema(cls)
        return self._packed(self._value(schema, schema.get("$defs", {}), harm, 0))

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
            return said | ({self._word(): self._junk()} if rng.random() < harm else {})
        if kind == "array":
            count = 0 if depth > 4 else rng.choice((schema.get("minItems", 0), 1, 2))
            return [self._value(schema.get("items", {}), defs, harm, depth + 1) for _ in range(count)]
        if kind == "string":
            if "contentEncoding" in schema:
                return rng.randbytes(rng.choice((0, 1, 32, 100)))
            return rng.choice(
                (self._word(), "x" * min(schema.get("maxLength", 8), 10_000) + ("x" if rng.random() < harm else ""))
            )
        if kind == "integer":
            return rng.choice((schema.get("minimum", 0), schema.get("maximum", 9), 1))
        return {"number": 0.5, "boolean": rng.random() < 0.5, "null": None}.get(str(kind), {"k": self._word()})

    def _junk(self) -> Any:
        return self._rng.choice(
            (None, True, 1.5, float("nan"), float("inf"), b"\xff\xfe", b"", [], {}, [[]], {"": None}, {1: 2}, [0] * 300,
             self._word(), "x" * 5000, self._number(), msgpack.ExtType(1, b"x"), msgpack.Timestamp(1, 1))
        )  # fmt: skip

    def _word(self) -> str:
        return self._rng.choice(_WORDS)

    def _number(self) -> int:
        return self._rng.choice(_NUMBERS)

    @staticmethod
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
    lying = rng.choice(
        (b"\x02" + b"\x7f" + b"\xff" * 7, b"\x00\xff", b"\x06" + bytes(8), b"\x01\x00" * 50, b"\x04\x05\x04PING")
    )
    data = bytearray(
        greeting
        + rng.choice((ready, b"", b"\x04\x02\x05E", rng.randbytes(30)))
        + lying
        + rng.randbytes(rng.choice((0, 9, 500)))
    )
    if rng.random() < 0.5:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data[: rng.choice((len(data), rng.randrange(len(data)) + 1))])


def command_line(rng: random.Random) -> bytes:
    """What may stand where a command to the launcher is expected."""
    fields = rng.choice(('"actor": "nobody/9", "then": "stay"', '"role": "nobody", "count": 1', '"role": "ho1", "count": 0', '"actor": 1',
                         '"role": "ho1", "count": 1e400', '"actor": "\\ud800", "then": "stay"', '"actor": "' + "x" * 5000 + '"'))  # fmt: skip
    data = f'{{"command": "{rng.choice(("scale", "leave", "bus.hello", chr(92) + "u0000"))}", {fields}}}'.encode()
    nonsense = (data[: rng.randrange(len(data))], rng.randbytes(200), b"", b"[" * 5000, b"\xff" + data, bytes(100_000))
    return rng.choice((data, data, *nonsense))
