"""No limit, budget, time-out or threshold is a number in code: each stands in `config/admin_config.json`, or says here why not.

Looked at, in every package that ships: numbers that a module or a class gives a name, bounds of fields, defaults of
fields, parameters and options, and times and sizes that are given to a call by their name. -1, 0 and 1 are where
counting begins and how "none" is written; they limit nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from config.schema import AdminConfig
from tests.architecture.source import modules
from tests.architecture.test_catalog import RECORDS, is_constant
from tests.architecture.test_defaults import SECTIONS

EMPTY: tuple[object, ...] = (None, 0, 0.0, "", [], {}, False)
BOUNDS = ("ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "maxlen", "default")
NAMED_FOR_A_LIMIT = re.compile(r"(^|_)(max|min|limit|timeout|interval|s|ms|bytes|chars|tokens|attempts|budget)$")


def numbers(tree: ast.Module) -> Iterator[str]:
    """What is a number of its own, each under a name that stays when lines move."""
    for owner, node in _with_owner(tree, ""):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and not _is_in_function(owner):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if _holds_number(node.value):
                yield from (f"{owner}{ast.unparse(target)}" for target in targets)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            last = [*given.posonlyargs, *given.args][::-1]
            pairs = [
                *zip(last, given.defaults[::-1], strict=False),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ]
            yield from (
                f"{owner}{node.name}({one.arg})" for one, value in pairs if value is not None and _is_number(value)
            )
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                is_bound = keyword.arg in BOUNDS or NAMED_FOR_A_LIMIT.search(keyword.arg or "") is not None
                if is_bound and _is_number(keyword.value):
                    yield f"{owner}{ast.unparse(node.func)}({keyword.arg}={ast.unparse(keyword.value)})"


def _with_owner(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node with where it stands: `Class.field:` of a field, `function():` inside of a function."""
    waiting = [(owner, node)]
    while waiting:
        outer, parent = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            yield outer, child
            inner = outer
            if isinstance(child, ast.ClassDef):
                inner = f"{outer}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{outer}{child.name}():"
            elif isinstance(child, ast.AnnAssign | ast.Assign) and not _is_in_function(outer):
                target = child.target if isinstance(child, ast.AnnAssign) else child.targets[0]
                inner = f"{outer}{ast.unparse(target)}:"
            waiting.append((inner, child))


def _is_in_function(owner: str) -> bool:
    return "():" in owner


def _is_number(node: ast.expr) -> bool:
    """A constant expression with a value beyond -1, 0 and 1; an enum's or a flag's name is none."""
    if not all(
        isinstance(part, ast.Constant | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop) for part in ast.walk(node)
    ):
        return False
    value = eval(compile(ast.Expression(node), "", "eval"))  # noqa: S307 - of constants alone
    return type(value) in (int, float) and value not in (-1, 0, 1)


def _holds_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_holds_number(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return any(_holds_number(one) for one in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("frozenset", "range", "set"):
        return any(_holds_number(one) for one in node.args)
    return _is_number(node)


@cache
def found() -> list[str]:
    """Every number of its own in what ships."""
    return sorted({f"{module}.{name}" for module, tree in modules().items() for name in numbers(tree)})


FACTS: dict[str, tuple[str, ...]] = {
    "the wire's format, in bus/PROTOCOL.md: both ends must have it before either knows the other's configuration": (
        "bus.broker.admission.ATTEMPT_MAX", "bus.broker.admission.DEADLINE_MAX_MS",
        "bus.broker.admission.HEADER_ROOM_BYTES",
        "bus.broker.delivery._CANCEL_MAX_BYTES", "bus.broker.tap_wire.*", "bus.codec.HEADER_MAX_BYTES",
        "bus.envelope.*", "bus.join_token.*", "bus.messages.control.*", "bus.messages.failure.*",
        "bus.messages.base.Sendable:*", "bus.messages.ids.*", "bus.messages.launcher.*", "bus.zeromq.broker_loop._PARTS",
        "bus.zeromq.broker_loop._PROBE_PARTS", "bus.zeromq.curve_link._FRAMES", "bus.zeromq.link._FRAMES",
        "bus.zeromq.remote_router._KEY_CHARS", "bus.zeromq.tap._TOPIC_MAX_BYTES", "bus.zeromq.zap._KEY_BYTES",
        "actors.ho1_executor.tools.protocol.*", "launch.zygote.*", "launch.zygote_words.WORD_MAX_BYTES",
        "launch.written_words._MAX_BYTES", "launch.scale.PROCESSES_MAX", "launch.commands.steering.EPOCH_MAX",
        "launch.commands.drill.kill():click.FloatRange(max=3600)",
    ),
    "the record's format, in docs/ledger.md, and ids that stand in it: a record outlives every configuration": (
        "bus.record.entry.*", "ledger_service.frame.*", "ledger_service.index.SCHEMA_VERSION",
        "ledger_service.index._HASH_MIN", "ledger_service.index.(_PARTITION_BITS, _PARTITIONS_BITS)",
        "ledger_service.mask.*", "ledger_service.scan._WRITTEN_BYTES_MIN", "ledger_service.segment._DIGITS",
        "actors.ho2_supervisor.session.snapshot.*", "bus.messages.memory.AgentId:*", "bus.messages.memory.ArtifactId:*",
        "bus.messages.memory.SignalId:*", "bus.messages.memory.Signal.event_id:*",
        "bus.messages.memory.LogConsolidationFailure.*", "actors.session_host.records._REASON_MAX_CHARS",
        "actors.ho3_memory.decay.DECIMALS", "actors.ho2_supervisor.biases._DECIMALS",
        "actors.ho2_supervisor.composed.*", "gateway_service.service._ENTRIES_OF_CALL",
        "launch.tapping.capture._BATCH_FIELDS",
    ),
    "the configuration's own format": (
        "config.assets.Boundary.*", "config.schema.Profile.temperature:*", "config.consistency._AROUND_A_KEY_CHARS", "config.parse.INTEGER_MAX", "gateway_service.budget._STRICTNESS",
    ),
    "formats and interfaces of others: the kernel's, Python's, HTTP's, MessagePack's, models' and MCP servers'": (
        "actors.ho1_executor.mcp_servers.content.*", "actors.ho1_executor.mcp_servers.listing._NAME_CHARS",
        "actors.ho1_executor.tools.child_main._DESCRIPTORS_MAX", "actors.ho1_executor.tools.confine.*",
        "actors.ho1_executor.tools.keeper.*", "bus.conduct.FRAME_BYTES", "bus.histogram.BOUNDS_MS", "bus.curve25519.*", "bus.disk.*",
        "gateway_service.breaker.*", "gateway_service.pricing.TOKENS_MAX",
        "gateway_service.providers.http.answers._COUNT_MAX", "gateway_service.providers.http.faults._LEAST_ERROR",
        "gateway_service.providers.http.faults._MAY_HAVE_WORKED", "gateway_service.providers.http.faults._OF_TYPES",
        "gateway_service.providers.http.faults._TOO_MANY", "gateway_service.providers.http.faults._RETRY_AFTER_MAX_MS",
        "gateway_service.providers.http.guard._FIRST_OTHER", "gateway_service.providers.http.names._NAME_MAX_CHARS",
        "gateway_service.providers.keys.*", "launch.chat.typed._PRIVATE", "launch.cli._PRIVATE",
        "launch.descriptors.*", "launch.exit_codes.*", "launch.given._MAX_BYTES", "launch.home.*",
        "launch.interrupt.INTERRUPTED", "launch.kernel.*", "launch.listen._PORT_MAX", "launch.providers.check.*",
        "launch.checkup._PYTHON", "launch.http.app._CLIENT_GONE", "launch.http.keys._KEY_MAX_CHARS",
        "launch.http.keys._HALF", "launch.http.keys._SETTLED_NS", "launch.http.openapi._KEY", "launch.http.problems.STATUS",
        "launch.http.turns._KEY_MAX_CHARS", "launch.http_client._RETRYABLE",
    ),
    "arguments of a library's class, for programs that have no configuration of ours: whoever calls it decides": (
        "launch.http_client.(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)", "launch.http_client.AsyncClient.__init__(timeout_s)",
        "launch.http_client.Client.__init__(timeout_s)", "launch.cluster_client.AsyncClusterClient.open(timeout_s)",
        "launch.cluster_client.ClusterClient.__init__(timeout_s)",
    ),
    "units, and what words mean: an hour, a million, a kilobyte, an order of stages": (
        "actors.ho2_supervisor.biases._DAY_S", "actors.ho2_supervisor.consolidation._HOUR_S",
        "actors.ho3_memory.event_time.HOUR_US", "bus.catalog.(_COMMAND, _PAGE)", "bus.pacing._ROUNDING",
        "gateway_service.pricing._PER_MILLION", "gateway_service.rates._PER_MINUTE", "launch.commands.token._UNITS",
        "launch.demo_story._US", "launch.drill_story._US", "launch.filters.quantities.*", "launch.orphan.STAGES",
        "launch.launcher._FOR_EVER_S", "launch.worker._FOR_EVER_S", "launch.checkup._YEAR_2024",
        "launch.providers.add._PRICES",
    ),
    "what a secret is, and what a quotation: a rule that no configuration may weaken": (
        "gateway_service.providers.http.faults._QUOTED_CHARS", "gateway_service.providers.http.hidden.*",
    ),
    "what one stranger's schema may cost whoever checks it, where everybody waits: a bound that no configuration may lift": (
        "config.json_schema._*_MAX", "config.json_schema._PATTERNS_BYTES", "config.schema_cost.*",
    ),
    "only the cost of the same result depends on it: caches, and how much is read or looked at in one go": (
        "bus.broker.deadlines._COMPACT_FROM", "bus.broker.ring.*", "bus.collector.*", "bus.deadlines._SLACK",
        "bus.zeromq.unsent._MARK_BYTES", "config.json_schema._KEPT_MAX", "gateway_service.pricing._TOOLS*", "launch.chat.meanwhile._READ_AT_ONCE",
        "launch.chat.piped._READ_AT_ONCE", "launch.commands.ledger._PAGE", "launch.sessions.standing.LAST",
        "launch.log_files._PIECE_BYTES", "launch.log_tail.*",
        "launch.http.transcript._LAST", "launch.sessions.journal.*", "launch.turns._STARTS_MAX",
        "bus.record.catalog._STREAMS_KEPT", "ledger_service.index._HASHES_AT_ONCE", "ledger_service.index._HASHES_KEPT",
        "ledger_service.index._NAMES_KEPT", "ledger_service.index_file._TRIES",
        "ledger_service.tables._HEADS_KEPT", "ledger_service.tables._STEP_ENTRIES", "ledger_service.recovery._ROWS_PER_STEP", "ledger_service.segment._OPEN_MAX",
        "ledger_service.source._WINDOW_BYTES", "ledger_service.verify._TRIES",
    ),
    "the shape of what people read: how much of a name, a list or a line is shown, and what an option says if not given": (
        "actors.ho1_executor.mcp_servers.frames.*", "actors.ho1_executor.mcp_servers.listing._REFUSED_SHOWN",
        "actors.ho2_supervisor.commanding._BEGINNING_CHARS", "actors.ho3_memory.actor._SHOWN_IDS",
        "bus.codec._NAME_SHOWN", "launch.chat.outcome._NAMED_MAX", "launch.commands.budget._BAR_CELLS",
        "launch.commands.ledger._PROGRESS_STEP", "launch.commands.ledger.show():*", "launch.commands.ledger.tail():*",
        "launch.commands.logs._LINES", "launch.commands.session.*", "launch.commands.tools._WORKERS_SHOWN",
        "launch.filters.syntax.DEPTH_MAX", "launch.http.metrics._SECONDS", "launch.output._CELL_MAX_CHARS", "launch.sessions.named._NAMED_AT_MOST",
        "launch.sessions.noticed.*", "launch.show_progress._LINE_MAX", "launch.tapping.table.*",
    ),
    "of commands that work without a configuration, as where it is broken, or before a cluster that nobody answers for": (
        "launch.checkup.*", "launch.children._REAP_INTERVAL_S", "launch.commands.logs._LOOK_INTERVAL_S",
        "launch.stale.*", "launch.tapping.sink._GRACE_MS", "launch.chat.typed._WAKE_EVERY_S",
    ),
    "the grammar of the embedded model: its answers are these numbers": ("gateway_service.providers.offline.*",),
    "the play of a demonstration, a drill or a simulation: a seed means these numbers": (
        "bus.sim.*", "launch.simulated.*", "launch.simulation.*", "launch.commands.simulate.*", "launch.commands.demo.*", "launch.drill_run.*",
    ),
}  # fmt: skip
"""Why a number is none of the configuration -> where such numbers stand (`*`: all below)."""

PATTERNS = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for one in FACTS.values() for pattern in one}


def test_no_limit_is_a_number_in_code() -> None:
    """If this fails: make it a setting; or, if it is a fact that nobody could choose otherwise, list it above."""
    assert [name for name in found() if not any(pattern.fullmatch(name) for pattern in PATTERNS.values())] == []


def test_listed_number_is_there() -> None:
    """The list has no dead entries."""
    assert [one for one, pattern in PATTERNS.items() if not any(map(pattern.fullmatch, found()))] == []


def test_nothing_on_the_wire_has_a_setting_s_value_unless_somebody_says_so() -> None:
    """A field named as a setting carries its value: a default would be a second source, and nobody would notice."""
    settings = {name for section in SECTIONS if section is not AdminConfig for name in section.model_fields}
    silent = {
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in RECORDS
        for name, field in cls.model_fields.items()
        if name in settings and not field.is_required() and not is_constant(field)
        if (value := field.get_default(call_default_factory=True)) not in EMPTY and type(value) is not bool
    }
    assert silent == set()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("LIMIT = 5", "LIMIT"),
        ("class A:\n    kept: int = 2 * 8", "A.kept"),
        ("class A:\n    name: Annotated[str, Field(max_length=400)]", "A.name:Field(max_length=400)"),
        ("Name = Annotated[str, Field(max_length=80)]", "Name:Field(max_length=80)"),
        ("def f(chars=300): ...", "f(chars)"),
        ("async def f(*, timeout_s=2.5): ...", "f(timeout_s)"),
        ("def f():\n    g(timeout_s=10)", "f():g(timeout_s=10)"),
        ("A, B = 4, 8", "(A, B)"),
        ("STEPS = {'a': 3}", "STEPS"),
    ],
)
def test_each_form_of_a_constant_is_seen(source: str, name: str) -> None:
    """The check can fail, for every way in which a limit has stood in code."""
    assert list(numbers(ast.parse(source))) == [name]


@pytest.mark.parametrize("source", ["COUNT = 0", "def f(attempt=1): ...", "def f():\n    x = 5", "FLAG = True"])
def test_where_counting_begins_is_no_limit(source: str) -> None:
    """Nor is a local name: what it is given stands somewhere else, or is arithmetic."""
    assert list(numbers(ast.parse(source))) == []
