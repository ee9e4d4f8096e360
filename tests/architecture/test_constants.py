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
from msgspec import NODEFAULT

from hobus.bus.messages.base import named_defaults
from hobus.config.schema import AdminConfig
from tests.architecture.source import FOLDERS, ROOT, children, modules
from tests.architecture.test_catalog import RECORDS
from tests.architecture.test_defaults import SECTIONS

DEPTH_OF_A_ROOM = 3
EMPTY: tuple[object, ...] = (None, 0, 0.0, "", [], {}, False)
BOUNDS = ("ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "maxlen", "default")
_EMPTY = (ast.Name, ast.Constant)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
_LOOKED_AT = (*_FUNCTIONS, *_ASSIGNMENTS, ast.Call)
NAMED_FOR_A_LIMIT = re.compile(r"(^|_)(max|min|limit|timeout|interval|s|ms|bytes|chars|tokens|attempts|budget)$")


def numbers(tree: ast.Module) -> Iterator[str]:
    """What is a number of its own, each under a name that stays when lines move."""
    for owner, node in _with_owner(tree, ""):
        if isinstance(node, _ASSIGNMENTS) and node.value is not None and not _is_in_function(owner):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if _holds_number(node.value):
                yield from (f"{owner}{ast.unparse(target)}" for target in targets)
        elif isinstance(node, _FUNCTIONS):
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
    """Every definition, assignment and call, with where it stands: `Class.field:` of a field, `function():` inside of a function."""
    waiting = [(owner, node)]
    while waiting:
        outer, parent = waiting.pop()
        for child in children(parent):
            if isinstance(child, _EMPTY):
                continue
            if isinstance(child, _LOOKED_AT):
                yield outer, child
            inner = outer
            if isinstance(child, ast.ClassDef):
                inner = f"{outer}{child.name}."
            elif isinstance(child, _FUNCTIONS):
                inner = f"{outer}{child.name}():"
            elif isinstance(child, _ASSIGNMENTS) and not _is_in_function(outer):
                target = child.target if isinstance(child, ast.AnnAssign) else child.targets[0]
                inner = f"{outer}{ast.unparse(target)}:"
            waiting.append((inner, child))


def _is_in_function(owner: str) -> bool:
    return "():" in owner


def _is_number(node: ast.expr) -> bool:
    """A constant expression with a value beyond -1, 0 and 1; an enum's or a flag's name is none."""
    if not all(
        isinstance(part, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)) for part in ast.walk(node)
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
    return sorted(
        {f"{module}.{name}" for module, tree in modules().items() for name in numbers(tree) if not is_limits(module)}
    )


def is_limits(module: str) -> bool:
    """Whether the module is a room's `limits.py`: engineering limits, each with its reason."""
    return module.endswith(".limits") and module.count(".") <= DEPTH_OF_A_ROOM


FACTS: dict[str, tuple[str, ...]] = {
    "the wire's format, in bus/PROTOCOL.md: both ends must have it before either knows the other's configuration": (
        "hobus.bus.broker.admission.ATTEMPT_MAX", "hobus.bus.broker.admission.DEADLINE_MAX_MS",
        "hobus.bus.broker.admission.HEADER_ROOM_BYTES",
        "hobus.bus.broker.delivery._CANCEL_MAX_BYTES", "hobus.bus.broker.tap_wire.*", "hobus.bus.codec.HEADER_MAX_BYTES",
        "hobus.bus.envelope.*", "hobus.bus.join_token.*", "hobus.bus.messages.control.*", "hobus.bus.messages.failure.*",
        "hobus.bus.messages.base.SENDABLE_MAX", "hobus.bus.json_text.*", "hobus.bus.messages.ids.*", "hobus.bus.zeromq.broker_loop._PARTS",
        "hobus.bus.zeromq.broker_loop._PROBE_PARTS", "hobus.bus.zeromq.link._FRAMES",
        "hobus.bus.zeromq.remote_router._KEY_CHARS", "hobus.bus.zeromq.tap._TOPIC_MAX_BYTES", "hobus.bus.zeromq.remote_router._KEY_BYTES",
        "hobus.actors.ho1_executor.tools.protocol.*", "hobus.launch.launcher.zygote.*",
        "hobus.launch.launcher.control.*", "hobus.launch.cli.commands.steering.EPOCH_MAX",
    ),
    "the record's format, in docs/ledger.md, and ids that stand in it: a record outlives every configuration": (
        "hobus.bus.record.entry.*", "hobus.bus.messages.work_order.ToolCall.ADDED_LATER", "hobus.ledger_service.frame.*", "hobus.ledger_service.intake.(_OWN_BYTES, _OF_BODY_BYTES)", "hobus.ledger_service.search_index._BITS", "hobus.ledger_service.*index.SCHEMA_VERSION",
        "hobus.actors.ho3_memory.checkpoint._FORMAT",
        "hobus.ledger_service.index._HASH_MIN", "hobus.ledger_service.index.(_PARTITION_BITS, _PARTITIONS_BITS)",
        "hobus.ledger_service.mask.*", "hobus.ledger_service.scan._WRITTEN_BYTES_MIN", "hobus.ledger_service.segment._DIGITS",
        "hobus.actors.ho2_supervisor.session.snapshot.*", "hobus.bus.messages.memory.AgentId:*", "hobus.bus.messages.memory.ArtifactId:*",
        "hobus.bus.messages.ids.SignalId:*", "hobus.bus.messages.memory.Signal.event_id:*",
        "hobus.actors.ho3_memory.records._WORDS_CHARS", "hobus.bus.messages.memory.CheckGate.event_id:*",
        "hobus.bus.messages.memory.MomentText:*", "hobus.bus.messages.memory.PlainOverlay.overlay_id:*",
        "hobus.bus.messages.memory.ReadSignals.after:*", "hobus.bus.messages.memory.LogConsolidationFailure.*", "hobus.actors.session_host.records._REASON_MAX_CHARS",
        "hobus.actors.ho3_memory.event_time.DECIMALS", "hobus.actors.ho2_supervisor.turn.recall._DECIMALS",
        "hobus.actors.ho3_memory.evidence._ROUNDING",
        "hobus.bus.record.text_parts.*", "hobus.gateway_service.service._ENTRIES_OF_CALL",
        "hobus.launch.cli.tap.capture._BATCH_FIELDS",
    ),
    "the configuration's own format": (
        "hobus.config.assets.PackageId:*", "hobus.launch.cluster.installed.HEX", "hobus.launch.packages.signing.*",
        "hobus.config.assets.Boundary.*", "hobus.config.sections.gateway.Profile.temperature:*", "hobus.config.parse.INTEGER_MAX", "hobus.config.yaml_text._NUMBER_MAX_CHARS", "hobus.config.parse._DEPTH_MAX", "hobus.gateway_service.budget._STRICTNESS",
    ),
    "formats and interfaces of others: the kernel's, Python's, HTTP's, MessagePack's, models' and MCP servers'": (
        "hobus.actors.ho1_executor.mcp_servers.listing.*", "hobus.actors.ho1_executor.mcp_servers.listing._NAME_CHARS", "hobus.actors.ho1_executor.tools.keeper.*", "hobus.actors.ho1_executor.tools.nursery.*", "hobus.actors.ho1_executor.tools.print_pipe._PIPE_BYTES", "hobus.actors.ho1_executor.tools.standard_streams.*",
        "hobus.bus.conduct.FRAME_BYTES", "hobus.bus.histogram.BOUNDS_MS", "hobus.bus.zeromq.curve.*", "hobus.bus.disk.*", "hobus.bus.word_scores.(_K1, _B)",
        "hobus.gateway_service.breaker.*", "hobus.gateway_service.routing._OVERLOAD", "hobus.gateway_service.pricing.TOKENS_MAX",
        "hobus.gateway_service.providers.http.reader._COUNT_MAX", "hobus.gateway_service.providers.http.faults._LEAST_ERROR",
        "hobus.gateway_service.providers.http.faults._MAY_HAVE_WORKED", "hobus.gateway_service.providers.http.faults._OF_TYPES",
        "hobus.gateway_service.providers.http.faults._TOO_MANY", "hobus.gateway_service.providers.http.retry_after.*", "hobus.gateway_service.providers.http.reader._STRINGS_MAX",
        "hobus.gateway_service.providers.http.clients._FIRST_OTHER", "hobus.gateway_service.providers.http.wire._NAME_MAX_CHARS",
        "hobus.gateway_service.providers.keys.*", "hobus.launch.cli.chat.prompt._PRIVATE", "hobus.launch.cli.main._PRIVATE",
        "hobus.launch.console.exit_codes.*", "hobus.launch.launcher.inherited._MAX_BYTES", "hobus.launch.cluster.home.*",
        "hobus.launch.console.interrupt.INTERRUPTED", "hobus.launch.cluster.kernel.*", "hobus.launch.launcher.zygote._CLOSED_BELOW", "hobus.launch.cluster.endpoints._PORT_MAX", "hobus.launch.cli.commands.console._PORT_MAX", "hobus.launch.cli.provider_check.*",
        "hobus.launch.cli.checkup._PYTHON", "hobus.launch.http.guard._CLIENT_GONE", "hobus.launch.http.keys._KEY_MAX_CHARS",
        "hobus.launch.http.keys._HALF", "hobus.launch.http.keys._SETTLED_NS", "hobus.launch.http.app._KEY", "hobus.launch.http.problems.STATUS",
        "hobus.launch.http.turns._KEY_MAX_CHARS", "hobus.launch.sessions.client_errors._RETRYABLE",
    ),
    "arguments of a library's class, for programs that have no configuration of ours: whoever calls it decides": (
        "hobus.launch.sessions.http_client.(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)", "hobus.launch.sessions.http_client._FIRST_ANSWER_S", "hobus.launch.sessions.http_client.AsyncClient.__init__(timeout_s)",
        "hobus.launch.sessions.http_client.Client.__init__(timeout_s)", "hobus.launch.sessions.cluster_client.AsyncClusterClient.open(timeout_s)",
        "hobus.launch.sessions.cluster_client.ClusterClient.__init__(timeout_s)", "hobus.launch.app.cluster.Cluster.__init__(timeout_s)",
        "hobus.launch.app.cluster.AsyncCluster.open(timeout_s)",
    ),
    "units, and what words mean: an hour, a million, a kilobyte, an order of stages": (
        "hobus.actors.ho2_supervisor.turn.recall._DAY_S", "hobus.actors.ho2_supervisor.learning.consolidation._HOUR_S",
        "hobus.actors.ho3_memory.event_time.HOUR_US",
        "hobus.gateway_service.pricing._PER_MILLION", "hobus.gateway_service.rates._PER_MINUTE",
        "hobus.launch.lab.story._US",  "hobus.launch.filters.quantities.*", "hobus.launch.process.liveness.STAGES",
        "hobus.launch.launcher.launcher._FOR_EVER_S", "hobus.launch.worker.main._FOR_EVER_S", "hobus.launch.cli.checkup._YEAR_2024",
    ),
    "what a secret is, and what a quotation: a rule that no configuration may weaken": (
        "hobus.actors.ho1_executor.file_reads._KEY_BYTES", "hobus.actors.ho1_executor.file_reads._FEW_WORDS",
        "hobus.gateway_service.providers.http.faults._QUOTED_CHARS", "hobus.gateway_service.providers.http.faults.*",
    ),
    "what one stranger's schema may cost whoever checks it, where everybody waits: a bound that no configuration may lift": (
        "hobus.config.json_schema._*_MAX", "hobus.config.json_schema._PATTERNS_BYTES", "hobus.config.schema_cost.*",
    ),
    "only the cost of the same result depends on it: caches, and how much is read or looked at in one go": (
        "hobus.actors.ho1_executor.held_state._KNOWN_MAX", "hobus.actors.ho1_executor.tools.host_process._UNREAD_MAX",
        "hobus.actors.ho1_executor.tools.child_main._LAG_S",
        "hobus.bus.broker.ring.*", "hobus.launch.http.server._ACCEPTS_AT_ONCE", "hobus.bus.collector.*", "hobus.bus.deadlines._SLACK", "hobus.bus.fair._PRINCIPALS_KEPT", "hobus.bus.lanes._ROLES_KEPT", "hobus.config.load.(_ASSETS_KEPT, _SETTINGS_KEPT)",
        "hobus.bus.zeromq.drained.MANY",
        "hobus.bus.zeromq.lane._MARK_BYTES", "hobus.config.json_schema._KEPT_MAX", "hobus.bus.messages.transcript.(_KEPT, _KEPT_CHARS)", "hobus.config.own_settings._DEPTH_MAX", "hobus.gateway_service.places._GROWTH", "hobus.gateway_service.places._NEWEST_SHARE", "hobus.gateway_service.pricing._TOOLS*", "hobus.launch.cli.chat.prompt._READ_AT_ONCE",
        "hobus.launch.cli.chat.piped._READ_AT_ONCE", "hobus.launch.cli.commands.ledger._PAGE", "hobus.launch.sessions.summary.LAST", "hobus.launch.sessions.summary.MORE",
        "hobus.launch.logs.files._PIECE_BYTES", "hobus.launch.logs.tail.*",
        "hobus.launch.http.transcript._LAST", "hobus.launch.sessions.journal.*", "hobus.launch.sessions.named.STARTS_MAX",
        "hobus.actors.ho3_memory.event_time._TIMES_KEPT", "hobus.bus.record.catalog._STREAMS_KEPT", "hobus.ledger_service.index._HASHES_AT_ONCE",
        "hobus.ledger_service.index._NAMES_KEPT", "hobus.ledger_service.intake._SALTS_AT_ONCE", "hobus.ledger_service.index._TRIES",
        "hobus.ledger_service.tables._HEADS_KEPT", "hobus.ledger_service.tables._STEP_ENTRIES", "hobus.ledger_service.full_text.*", "hobus.ledger_service.finding._COMPARED", "hobus.ledger_service.finding._ROWS_AT_ONCE", "hobus.ledger_service.finding._MEASURED", "hobus.ledger_service.finding._WORD_CHARS", "hobus.ledger_service.search_index._TERMS_KEPT", "hobus.ledger_service.search_reader._AT_ONCE", "hobus.ledger_service.recovery._ROWS_PER_STEP", "hobus.ledger_service.segment._OPEN_MAX",
        "hobus.ledger_service.source._WINDOW_BYTES", "hobus.ledger_service.scan.TRIES_BESIDE_WRITER",
    ),
    "the shape of what people read: how much of a name, a list or a line is shown, and what an option says if not given": (
        "hobus.actors.ho1_executor.mcp_servers.listing.printable(chars)", "hobus.actors.ho1_executor.mcp_servers.listing._REFUSED_SHOWN",
        "hobus.actors.ho1_executor.tools.print_pipe._LEFT_OUT_BYTES", "hobus.actors.ho2_supervisor.commanding._BEGINNING_CHARS", "hobus.actors.ho3_memory.acceptance._SHOWN_IDS", "hobus.bus.messages.base.(_PLACE_SHOWN, _FAULT_SHOWN)", "hobus.launch.cli.outcome._NAMED_MAX", "hobus.launch.cli.commands.limits.*", "hobus.launch.cli.web.limits.*", "hobus.launch.cli.web.words.*", "hobus.launch.cli.web.turn.*", "hobus.launch.cli.web.frames.*", "hobus.launch.cli.web.gateway.*", "hobus.launch.cli.web.memory.*",
        "hobus.config.gates.ownership._SHOWN_CHARS", "hobus.config.gates.finding.SHOWN_MAX", "hobus.config.parse._FAULTS_SHOWN", "hobus.config.yaml_text._SHOWN_CHARS", "hobus.launch.cli.commands.registry._SHOWN_HASH", "hobus.config.gates.invariants._SHOWN_CHARS",
        "hobus.actors.ho1_executor.file_reads._SHOWN_CHARS", "hobus.ledger_service.finding._EXCERPT_LEAD", "hobus.launch.cli.commands.ledger_search.search():*",
        "hobus.launch.cli.commands.ledger._PROGRESS_STEP", "hobus.launch.cli.commands.ledger.show():*", "hobus.launch.cli.commands.ledger.tail():*",
        "hobus.launch.cli.commands.logs._LINES", "hobus.launch.cli.commands.logs._TURNS_NAMED", "hobus.launch.cluster.config_changed._NAMED", "hobus.launch.launcher.operate._NAMED", "hobus.launch.filters.meaning._NAMED_AT_MOST", "hobus.launch.filters.turns._LEAST_CHARS", "hobus.launch.cli.commands.session.*", "hobus.launch.cli.commands.session_show.*", "hobus.launch.cli.commands.tools._WORKERS_SHOWN", "hobus.launch.filters.syntax.DEPTH_MAX",
        "hobus.launch.http.metrics._SECONDS", "hobus.launch.console.output._CELL_MAX_CHARS", "hobus.launch.console.terminal.*", "hobus.launch.sessions.which._NAMED_AT_MOST", "hobus.launch.sessions.which._DIGITS", "hobus.launch.sessions.notifications.*", "hobus.launch.launcher.starting._LINE_MAX", "hobus.launch.launcher.starting._ROW_CELLS", "hobus.launch.launcher.starting._SOON_S", "hobus.launch.cli.tap.table.*",
        "hobus.launch.console.errors._LINE_MAX_CHARS", "hobus.launch.sessions.account._*_CHARS", "hobus.launch.cli.turn_account.*", "hobus.launch.cli.why_view.*", "hobus.launch.cli.commands.asset.*", "hobus.launch.sessions.provenance._SHORT_CHARS", "hobus.launch.console.output._PROSE_CELLS", "hobus.launch.launcher.progress._SAY_EVERY_S", "hobus.config.own_settings._NEAR_MAX",
    ),
    "of commands that work without a configuration, as where it is broken, or before a cluster that nobody answers for": (
        "hobus.launch.cli.checkup.*", "hobus.launch.launcher.children._REAP_INTERVAL_S", "hobus.launch.cli.commands.logs._LOOK_INTERVAL_S",
        "hobus.launch.launcher.stop._LOOK*", "hobus.launch.launcher.up_already._LOOK*", "hobus.launch.cli.tap.printer._GRACE_MS",
    ),
    "the grammar of the embedded model: its answers are these numbers": ("hobus.gateway_service.providers.offline.*",),
    "the play of a demonstration, a drill or a simulation: a seed means these numbers": (
        "hobus.bus.sim.*", "hobus.launch.lab.simulation.*", "hobus.launch.cli.commands.simulate.*", "hobus.launch.cli.commands.demo.*", "hobus.launch.lab.drill_run.*",
    ),
}  # fmt: skip
"""Why a number is none of the configuration -> where such numbers stand (`*`: all below)."""

PATTERNS = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for one in FACTS.values() for pattern in one}


def test_no_limit_is_a_number_in_code() -> None:
    """If this fails: make it a setting; or, if it is a fact that nobody could choose otherwise, list it above."""
    assert [name for name in found() if not any(pattern.fullmatch(name) for pattern in PATTERNS.values())] == []


def test_a_limit_of_a_room_says_what_it_protects() -> None:
    """In `limits.py` stand constants alone, each with a sentence below it."""
    silent = [
        f"{module}: {ast.unparse(node)}"
        for module, tree in modules().items()
        if is_limits(module)
        for node, following in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(node, _ASSIGNMENTS)
        and not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
    ]
    assert silent == []


def test_every_package_that_ships_is_looked_at() -> None:
    """A new one is seen as soon as programs can import it."""
    packages = {path.name for path in (ROOT / "hobus").iterdir() if (path / "__init__.py").is_file()}
    assert len(packages) > 5 and packages <= set(FOLDERS)
    assert {name.split(".")[1] for name in modules() if name.count(".")} >= packages


def test_listed_number_is_there() -> None:
    """The list has no dead entries."""
    assert [one for one, pattern in PATTERNS.items() if not any(map(pattern.fullmatch, found()))] == []


def test_nothing_on_the_wire_has_a_setting_s_value_unless_somebody_says_so() -> None:
    """A field named as a setting carries its value: a default would be a second source, and nobody would notice."""
    settings = {name for section in SECTIONS if section is not AdminConfig for name in section.model_fields}
    silent = {
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in RECORDS
        for name, default in named_defaults(cls)
        if name in settings and default is not NODEFAULT
        if default not in EMPTY and type(default) is not bool
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
