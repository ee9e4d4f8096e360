"""Every setting of every stage of a template, by what a turn's prompt shows with one value of it and with another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import pytest
from pydantic import BaseModel

from hobus.bus.dispatch import Call
from hobus.bus.messages.files import AT_HOME, FileText, ReadFile
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import Degradation
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.config.attention_template import AnyStage, Handler, Stage
from tests.actors.ho2_supervisor.attention.assembling import Assembling, template
from tests.actors.ho2_supervisor.attention.assembling import fragments as made
from tests.actors.ho2_supervisor.remembering import Remembering, bias
from tests.actors.ho2_supervisor.rig import SESSION, Pool, Rig, going_on, text_of
from tests.actors.ho2_supervisor.turn.test_context import contexts
from tests.transcripts import readable

pytestmark = pytest.mark.slow

OTHER = "99999999-2222-5333-8444-555555555555"
FILES = {
    "keys.md": "The boathouse key hangs behind the door.\n\nThe spare key lies in the boathouse itself.",
    "pets.md": "Feed the cat.",
}
KINDS: dict[str, type[BaseModel]] = {
    get_args(stage.model_fields["type"].annotation)[0]: stage.model_fields["config"].annotation
    for stage in get_args(AnyStage)
}
"""Type of stage -> the model of its `config`."""
NOTE = {"type": "ledger_query", "config": {"event_type": "DEGRADATION", "max_entries": 9, "scope": "cluster"}}
BASE: Mapping[str, dict[str, Any]] = {
    "tier_select": {"tiers": ["hot"], "strategy": "all_parallel"},
    "ledger_query": NOTE["config"],
    "registry_query": {"registry": "specs", "filters": {"spec_id": "SPEC-ADMIN-001"}},
    "file_read": {"paths": ["pets.md"], "max_size_bytes": 100},
    "horizontal_search": {
        "query": "boathouse key", "sources": ["files"], "paths": ["keys.md", "pets.md"], "max_results": 9, "relevance_threshold": 0.0,
    },
    "structuring": {"strategy": "relevance"},
    "halting": {"min_fragments": 0, "min_tokens": 0, "satisfaction_threshold": 0.0},
}  # fmt: skip


class Row(NamedTuple):
    """What a prompt shows with one value of a setting."""

    value: Any
    shows: list[str]
    beside: Mapping[str, Any] = {}
    """Other settings that go with it."""


LEARNED = [
    bias("ART-long", context_line="They like long answers, with every figure."),
    bias("ART-short", context_line="Be brief."),
]
SAID = [f"RunRequested:{OTHER}/before/1", f"RunCompleted:{OTHER}-1/2"]
HELD, GONE = ["SPEC-ADMIN-001"], ["SPEC-ADMIN-001", "moment"]
"""Behind a halting stands a stage that runs only where that is not satisfied."""
ROWS: Mapping[tuple[str, str], tuple[Row, ...]] = {
    ("", "enabled"): (Row(value=True, shows=["SPEC-ADMIN-001"]), Row(value=False, shows=[])),
    ("", "stage"): (Row("one", ["one"]), Row("other", ["other"])),
    ("tier_select", "tiers"): (Row(["hot"], ["a"]), Row(["ho1"], ["c", "b"])),
    ("tier_select", "strategy"): (
        Row("highest_first", ["a", "c"], {"tiers": ["ho1", "hot"]}),
        Row("all_parallel", ["c", "b"], {"tiers": ["ho1", "hot"]}),
    ),
    ("ledger_query", "event_type"): (Row("DEGRADATION", ["c", "b", "a"]), Row("SESSION_END", [])),
    ("ledger_query", "tier"): (Row("hot", ["a"]), Row("ho1", ["c", "b"])),
    ("ledger_query", "max_entries"): (Row(1, ["c"]), Row(2, ["c", "b"])),
    ("ledger_query", "recency_s"): (Row(3600, ["c", "b"]), Row(10**8, ["c", "b", "a"])),
    ("ledger_query", "filters"): (Row({"reason": "x"}, ["c", "a"]), Row({"reason": "y"}, ["b"])),
    ("ledger_query", "scope"): (
        Row("session", ["a"]), Row("agent", ["b", "a"]), Row("cluster", ["c", "b", "a"]),
    ),
    ("registry_query", "registry"): (
        Row("specs", ["SPEC-ADMIN-001"]), Row("frameworks", ["FMWK-004"], {"filters": {"title": "Attention"}}),
    ),
    ("registry_query", "filters"): (
        Row({"spec_id": "SPEC-ADMIN-001"}, ["SPEC-ADMIN-001"]), Row({"framework_id": "FMWK-004"}, ["SPEC-ATTENTION-001"]),
    ),
    ("file_read", "paths"): (Row(["pets.md"], ["pets.md"]), Row(["keys.md", "pets.md"], ["keys.md", "pets.md"])),
    ("file_read", "max_size_bytes"): (
        Row(4, ["Feed", "[The file goes on; only its beginning is shown.]"]), Row(100, ["Feed the cat."]),
    ),
    ("horizontal_search", "query"): (
        Row("boathouse key", ["keys.md#1", "keys.md#2"]), Row("{{ user_input }}", ["pets.md#1"]),
    ),
    ("horizontal_search", "sources"): (
        Row(["files"], ["pets.md#1"], {"query": "cat"}), Row(["ledger"], SAID, {"scope": "agent", "paths": []}),
    ),
    ("horizontal_search", "tiers"): (
        Row(["hot"], SAID, {"sources": ["ledger"], "scope": "agent", "paths": []}),
        Row(["ho1"], [], {"sources": ["ledger"], "scope": "agent", "paths": []}),
    ),
    ("horizontal_search", "paths"): (Row(["keys.md"], ["keys.md#1", "keys.md#2"]), Row(["pets.md"], [])),
    ("horizontal_search", "scope"): (
        Row("agent", SAID, {"sources": ["ledger"], "paths": []}), Row("session", [], {"sources": ["ledger"], "paths": []}),
    ),
    ("horizontal_search", "max_results"): (Row(1, ["keys.md#1"]), Row(2, ["keys.md#1", "keys.md#2"])),
    ("horizontal_search", "relevance_threshold"): (Row(0.99, []), Row(0.01, ["keys.md#1", "keys.md#2"])),
    ("structuring", "strategy"): (
        Row("relevance", ["named", "best", "good", "poor"]), Row("chronological", ["named", "poor", "best", "good"]),
        Row("hierarchical", ["best", "poor", "named", "good"]),
    ),
    ("structuring", "max_tokens"): (
        Row(None, ["named", "best", "good", "poor"]), Row(3, ["named", "best"]), Row(4, ["named", "best", "good"]),
    ),
    ("halting", "min_fragments"): (Row(1, HELD), Row(2, GONE)),
    ("halting", "min_tokens"): (Row(1, HELD), Row(999, GONE)),
    ("halting", "satisfaction_threshold"): (Row(0.5, HELD), Row(0.6, GONE)),
    ("custom", "handler"): tuple(Row(name, [name]) for name in get_args(Handler)),
    ("history", "max_tokens"): (Row(1000, ["before", "more"]), Row(10, ["more"])),
    ("liveness", "max_tokens"): (Row(None, ["INT-"]), Row(1, [])),
    ("memory", "max_tokens"): (Row(1000, ["ART-long", "ART-short"]), Row(4, ["ART-short"])),
}  # fmt: skip
CASES = [(kind, setting, row) for (kind, setting), rows in ROWS.items() for row in rows]


class Files(Pool):
    """An executor that has files, too, and cuts them as the real one does."""

    async def read(self, message: ReadFile, call: Call) -> FileText:
        text = FILES.get(message.path)
        if text is None:
            return FileText(refused="not_found", warning=f"{message.path}: no such file")
        is_cut = len(text) > message.max_bytes
        return FileText(
            path=f"/x/{message.path}", text=text[: message.max_bytes], is_cut=is_cut, warning="cut" * is_cut
        )


def settings() -> Iterator[tuple[str, str]]:
    """(type, setting) of the schema; what every stage has is of no type."""
    yield from (("", name) for name in Stage.model_fields)
    for kind, model in KINDS.items():
        yield from ((kind, name) for name in model.model_fields)


def test_every_setting_of_the_schema_has_its_rows() -> None:
    """A new stage, or a new setting of one, stands here before it stands in a template."""
    assert sorted(ROWS) == sorted(settings())
    for name, rows in ROWS.items():
        told = [row.shows for row in rows]
        assert len({str(one) for one in told}) == len(rows) >= 2 or name == ("custom", "handler"), name


@pytest.mark.parametrize(("kind", "setting", "row"), CASES, ids=[f"{k}.{s}={r.value}" for k, s, r in CASES])
def test_every_setting_of_a_stage_is_honoured(kind: str, setting: str, row: Row) -> None:
    """What a turn's prompt shows is what the setting says."""
    config = {**BASE.get(kind, {}), **row.beside, setting: row.value}
    match kind:
        case "":
            stage = {"type": "registry_query", "config": BASE["registry_query"], setting: row.value}
            shown = seen([stage])
            assert (shown.stages if setting == "stage" else shown.sources) == row.shows
        case "structuring":
            assert asyncio.run(structured(config)) == row.shows
        case "tier_select":
            after = {**NOTE, "config": {**NOTE["config"], "max_entries": 2}}
            assert seen([{"type": kind, "config": config}, after]).sources == row.shows
        case "halting":
            specs = {"type": "registry_query", "config": BASE["registry_query"]}
            moment = {"type": "custom", "config": {"handler": "moment"}}
            required = {"framework_refs": ["FMWK-004"], "file_refs": ["gone.md"]} if "threshold" in setting else None
            found = seen([specs, {"type": kind, "config": config}, moment], required=required).sources
            assert [one for one in found if one != "FMWK-004"] == row.shows
        case "file_read" if setting == "max_size_bytes":
            assert seen([{"type": kind, "config": config}]).text.splitlines()[1:] == row.shows
        case "history":
            shown = seen([{"type": kind, "config": config}])
            assert [word for word in ("before", "more") if f"user: {word}" in readable(shown.history)] == row.shows
        case "memory":
            assert list(seen([{"type": kind, "config": config}]).payload.artifact_ids) == row.shows
        case "liveness":
            assert [one[:4] for one in seen([{"type": kind, "config": config}]).sources] == row.shows
        case _:
            assert seen([{"type": kind, "config": config}]).sources == row.shows


# --- what is seen -----------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """Of one prompt."""

    payload: ContextAssembled
    text: str
    history: str

    @property
    def sources(self) -> list[str]:
        """Of its fragments, in order."""
        return [one.source_id.removeprefix("DEGRADATION:") for one in self.payload.fragments]

    @property
    def stages(self) -> list[str]:
        """Their names."""
        return [one.stage for one in self.payload.stages]


def seen(pipeline: list[dict[str, Any]], required: dict[str, Any] | None = None) -> Seen:
    """The last turn of a few, by a template of these stages."""
    changes = (("ho3.enabled", True),)
    with Rig(*changes, tools=[], templates=[template(*pipeline)], required=required, script=going_on) as rig:
        files = Files()
        rig.world.start(files, role="ho1", slots=16, tools=[AT_HOME])
        rig.world.start(Remembering(LEARNED), role="ho3", slots=64)
        rig.run(rig.world.settled())
        rig.run(rig.ledger_client("host").write(list(notes())))
        rig.run(rig.start_session(OTHER))
        rig.run(rig.turn("before", "the boathouse key is under the flowerpot", session_id=OTHER))
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "before"))
        rig.run(rig.turn("i2", "more"))
        rig.run(rig.host.sleep(1))
        assert rig.run(rig.turn("i3", "Feed whom?")).outcome == "success"
        last = f"WO-{SESSION}-3."
        [order] = [
            one
            for one in (*rig.pool.orders, *files.orders)
            if one.wo_type == "synthesize" and one.wo_id.startswith(last)
        ]
        (*_, (_, payload)) = contexts(rig)
        return Seen(payload, text_of(order, "assembled_context"), text_of(order, "history"))


def notes() -> Iterator[WriteEntry]:
    """Three of two tiers, agents and reasons; the first of a year before."""
    for name, tier, agent, session, reason, at_us in (
        ("a", "hot", "ADMIN", SESSION, "x", 1_735_689_600_000_000),
        ("b", "ho1", "ADMIN", OTHER, "y", 1_767_225_600_000_000),
        ("c", "ho1", "CLERK", OTHER, "x", 1_767_225_600_000_000),
    ):
        yield WriteEntry(
            submission_id=f"DEGRADATION:{name}", stream="governance", event_type="DEGRADATION", at_us=at_us, reason=reason,
            provenance=Provenance(agent_id=agent, session_id=session, tier=tier), bodies=[pack_payload(Degradation("i0"))],
        )  # fmt: skip


async def structured(config: dict[str, Any]) -> list[str]:
    """Of two stages' fragments."""
    first = [*made("search", "best", score=0.9), *made("search", "poor", score=0.1)]
    second = [*made("registry", "named"), *made("search", "good", score=0.5)]
    first[0], first[1] = first[0]._replace(at_us=2), first[1]._replace(at_us=1)
    second[1] = second[1]._replace(at_us=3)
    one = template(
        {"type": "horizontal_search", "config": BASE["horizontal_search"]},
        {"type": "registry_query", "config": BASE["registry_query"]},
        {"type": "structuring", "config": config},
    )
    context = await Assembling([one], {"horizontal_search": first, "registry_query": second}).assembled()
    return [fragment.content for fragment in context.fragments]
