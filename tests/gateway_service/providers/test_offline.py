"""The offline model's answer table, on the shipped contracts, packs, tools and labels."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse, ToolSpec
from hobus.bus.messages.given_history import with_history
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.config.prompt_pack import fill_pack, parse_pack
from hobus.gateway_service.pricing import estimate_input_tokens
from hobus.gateway_service.providers.offline.answer import tell
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.model import MODELS
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.gateway_service.providers.offline.reading import ToolAnswer
from hobus.gateway_service.providers.offline.structured import LEAST_MAX_CHARS, make_least_instance
from tests.gateway_service.rig import SHIPPED

ROOT = Path(__file__).parents[3]
TOOLS = [
    ToolSpec(tool_id=tool.tool_id, description=tool.description, parameters=tool.parameters)
    for tool in BUILTIN.values()
]
HISTORY = [("user", "what packages are installed?"), ("assistant", "2 packages are installed: A, B.")]
DIGEST = (
    "Earlier in this conversation, shortened:\n- 3 earlier turns are not shown\n"
    "- user: hello | assistant: Hello (again). (turn 4)\n"
    "- user: what did this session cost? | assistant: Nothing (turn 5; session_cost)"
)
DIGESTS = [("user", DIGEST)]
LABELS = SHIPPED.config.classify_labels


def provider(**changes: Any) -> OfflineProvider:
    """A provider as it is wired."""
    values = {"provider_id": "offline", "latency_ms": 0, "chars_per_token": 4, "sleep": asyncio.sleep}
    return OfflineProvider(**{**values, **changes})


PROVIDER = provider()


def spoken(*said: tuple[str, str]) -> list[PromptMessage]:
    """Messages of a conversation."""
    return [PromptMessage.model_validate({"role": role, "segments": [Segment(text=text)]}) for role, text in said]


def prompt(contract_id: str, text: str = "hello", *, tools: list[ToolSpec] | None = None, **inputs: str) -> Prompt:
    """The shipped pack of a contract with these inputs, as HO1 and the host render it."""
    contract = SHIPPED.contracts[contract_id]
    pack = parse_pack(contract.prompt_pack_id, SHIPPED.prompt_packs[contract.prompt_pack_id])
    given = dict.fromkeys(pack.variables, "") | {
        "user_input": text, "domain_labels": ", ".join(LABELS.domain), "task_labels": ", ".join(LABELS.task),
        "system": "You administer.", "agent_id": "ADMIN",
    } | inputs  # fmt: skip
    messages = fill_pack(pack, {name: [Segment(name=name, text=value)] for name, value in given.items()})
    return Prompt(
        messages=messages, prompt_pack_id=contract.prompt_pack_id, contract_id=contract_id, agent_id="ADMIN",
        work_order_id="WO-1", session_id="s", max_tokens=contract.boundary.max_tokens, temperature=0.0,
        tools=tools or [], output_schema=contract.output_schema,
        structured_output=contract.boundary.structured_output, idempotency_key="WO-1#1",
    )  # fmt: skip


async def ask(wanted: Prompt) -> PromptResponse:
    """The model's response."""
    return await PROVIDER.complete(wanted, model_id=MODELS[0], timeout_s=1)


async def classified(text: str, **inputs: str) -> dict[str, Any]:
    """The classification, valid against its contract's schema."""
    response = await ask(prompt("PRC-CLASSIFY-001", text, **inputs))
    value = json.loads(response.content)
    Draft202012Validator(SHIPPED.contracts["PRC-CLASSIFY-001"].output_schema).validate(value)
    assert value["labels"]["domain"] in LABELS.domain and value["labels"]["task"] in LABELS.task
    return value


def behind(history: list[tuple[str, str]], wanted: Prompt) -> Prompt:
    """The prompt behind earlier turns."""
    system, *rest = wanted.messages
    return wanted.model_copy(update={"messages": [system, *spoken(*history), *rest]})


async def synthesized(
    text: str, *, tools: list[ToolSpec] = TOOLS, history: list[tuple[str, str]] | None = None, **inputs: str
) -> PromptResponse:
    """The response to a message under PRC-SYNTHESIZE-001."""
    return await ask(behind(history or [], prompt("PRC-SYNTHESIZE-001", text, tools=tools, **inputs)))


def with_results(wanted: Prompt, *rounds: tuple[str, Any]) -> Prompt:
    """The transcript one tool round later, as HO1 renders it."""
    calls = [
        ToolCall(call_id=f"{number:03d}", tool_id=tool_id, arguments={})
        for number, (tool_id, _) in enumerate(rounds, 1)
    ]
    results = [
        PromptMessage(
            role="tool", tool_call_id=call.call_id,
            segments=[Segment(name=call.call_id, text=value if isinstance(value, str) else json.dumps(value))],
        )
        for call, (_, value) in zip(calls, rounds, strict=True)
    ]  # fmt: skip
    return wanted.model_copy(
        update={"messages": [*wanted.messages, PromptMessage(role="assistant", tool_calls=calls), *results]}
    )


async def told(*rounds: tuple[str, Any]) -> str:
    """The text written from these tool results."""
    response = await ask(with_results(prompt("PRC-SYNTHESIZE-001", "?", tools=TOOLS), *rounds))
    assert response.tool_calls == [] and response.finish_reason == "stop"
    return response.content


# --- classify -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "speech_act", "action", "domain", "task"),
    [
        ("what packages are installed?", "question", "new", "system", "inspect"),
        ("What packages are INSTALLED", "question", "new", "system", "inspect"),
        ("thanks, bye", "farewell", "close", "general", "general"),
        ("ok great, thank you very much", "farewell", "close", "general", "general"),
        ("hello", "greeting", "new", "general", "general"),
        ("Good morning!", "greeting", "new", "general", "general"),
        ("hi, which tools do you have?", "question", "new", "tools", "inspect"),
        ("is the ledger intact?", "question", "new", "system", "inspect"),
        ("what did this session cost?", "question", "new", "session", "inspect"),
        ("show me the configuration of the gateway", "command", "new", "config", "inspect"),
        ("install package foo", "command", "new", "system", "modify"),
        ("write me a poem", "command", "new", "general", "create"),
        ("why does the gateway crash?", "question", "new", "system", "debug"),
        ("plan the next steps", "command", "new", "general", "plan"),
        ("where is the documentation?", "question", "new", "docs", "inspect"),
    ],
)
async def test_first_messages_are_classified(text, speech_act, action, domain, task):
    """Closed labels for a first message of a session, whose action is new unless it closes."""
    value = await classified(text)
    labels = value["labels"]
    assert (value["speech_act"], value["intent_signal"]["action"]) == (speech_act, action)
    assert (labels["domain"], labels["task"]) == (domain, task)


async def test_labels_stay_inside_the_vocabulary_that_the_prompt_shows():
    """A configuration without our words gets no label instead of a foreign one."""
    response = await ask(prompt("PRC-CLASSIFY-001", "what packages are installed?", domain_labels="cooking"))
    assert json.loads(response.content)["labels"] == {"task": "inspect"}


# --- asking tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("what packages are installed?", [("list_packages", {})]),
        ("which frameworks govern you?", [("list_frameworks", {})]),
        ("which specs are there?", [("list_specs", {})]),
        ("list the governed files", [("list_files", {})]),
        ("which tools do you have?", [("list_tools", {})]),
        ("is the ledger intact?", [("verify_ledger", {})]),
        ("has anybody tampered with the record?", [("verify_ledger", {})]),
        ("what did this session cost?", [("session_cost", {})]),
        ("how many tokens did we use? what is the cost", [("session_cost", {})]),
        ("how many tokens are left?", [("budget_status", {})]),
        ("show the budgets", [("budget_status", {})]),
        ("show me the configuration", [("show_config", {})]),
        ("what is the budget configuration?", [("show_config", {"path": "budget"})]),
        ("what is budget.turn_limit set to in the config?", [("show_config", {"path": "budget.turn_limit"})]),
        ("is everything running?", [("cluster_status", {})]),
        (
            "show the last 5 WO_COMPLETED entries of the ledger",
            [("query_ledger", {"event_type": "WO_COMPLETED", "limit": 5})],
        ),
        ("show me 500 entries of the ledger of this session", [("query_ledger", {"limit": 50, "session_id": "this"})]),
        ("what packages are installed and is the ledger intact?", [("list_packages", {}), ("verify_ledger", {})]),
        ("is the ledger intact, and what packages are installed?", [("verify_ledger", {}), ("list_packages", {})]),
        ("and the frameworks?", [("list_frameworks", {})]),
    ],
)
async def test_administration_questions_ask_the_tools_that_know(text, calls):
    """Each intent of a message is one call, in the order of the message, with arguments that the tool's schema takes."""
    response = await synthesized(text)
    assert [(call.tool_id, call.arguments) for call in response.tool_calls] == calls
    assert [call.call_id for call in response.tool_calls] == [f"{n}" for n in range(1, len(calls) + 1)]
    assert (response.finish_reason, response.content) == ("tool_calls", "")
    for call in response.tool_calls:
        Draft202012Validator(BUILTIN[call.tool_id].parameters).validate(call.arguments)


async def test_only_offered_tools_are_asked():
    """Without the tool the answer says what would be needed, and what can be done."""
    tools = [tool for tool in TOOLS if tool.tool_id == "list_tools"]
    response = await synthesized("what packages are installed?", tools=tools)
    assert response.tool_calls == []
    assert "was not given" in response.content and "list the tools I have" in response.content


async def test_a_call_that_is_required_is_made_whatever_the_message_says():
    """The first tool that is offered, with the least arguments that its schema takes."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [ToolSpec(tool_id="count", description="x", parameters=schema)]
    wanted = prompt("PRC-SYNTHESIZE-001", "tell me a joke", tools=tools)
    response = await ask(wanted.model_copy(update={"tool_choice": "required"}))
    assert [(call.tool_id, call.arguments) for call in response.tool_calls] == [("count", {"n": 0})]


# --- telling results ----------------------------------------------------------------------------------------------


async def test_a_failed_tool_is_said_to_have_failed():
    """No gap is filled: the code and the reason stand in the answer, beside what did work."""
    text = await told(("list_packages", "error tool_failed: the registry is away"), ("list_tools", {"tools": []}))
    assert text == "list_packages failed (tool_failed): the registry is away\n\n0 tools are available."
    assert await told(("charge", "error unknown_outcome: gone")) == "charge failed (unknown_outcome): gone"


@pytest.mark.parametrize("result", ['{"cut', "[1, 2]", "{}", "5", ""])
async def test_an_unexpected_result_is_shown_and_not_invented(result):
    """Cut JSON and other shapes never raise and never become a claim."""
    assert "list_packages" in await told(("list_packages", result))


# --- without tools ------------------------------------------------------------------------------------------------


async def test_what_it_cannot_do_is_said_with_the_two_commands_that_fix_it():
    """No pretence, and the words of the README for whoever wants a model that can."""
    text = (await synthesized("why is the sky blue?")).content
    assert text.startswith(
        "I am hobus's embedded offline model: fixed rules, no language model, so I cannot answer that."
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = re.findall(r"`(hobus [^`]+)`", text)[:2]
    assert f"$ {first}\n$ {second} " in readme


# --- the form of an answer ----------------------------------------------------------------------------------------


PACKAGES = {"packages": [{"package_id": f"P-{n}", "version": "1", "title": f"T{n}"} for n in (1, 2)]}
IN_FULL = "2 packages are installed:\n- P-1 1: T1\n- P-2 1: T2\n\n0 tools are available."


@pytest.mark.parametrize(
    ("text", "statement", "kind"),
    [
        ("always answer briefly", "always answer briefly", "preference"),
        ("list the tools. From now on use one line!", "From now on use one line!", "preference"),
        ("Never delete a package.", "Never delete a package.", "constraint"),
        ("thanks. From now on do not touch the ledger", "From now on do not touch the ledger", "constraint"),
        ("You are X.\nAlways answer briefly.\n\nMessage:\nNever delete it.", "Never delete it.", "constraint"),
        ("From now on, please call me Dr. Bob Smith.", "From now on, please call me Dr. Bob Smith.", "preference"),
        ("Hi. From now on call me Mr. T", "From now on call me Mr. T", "preference"),
        ("From now on call me prof. J. Smith. Bye", "From now on call me prof. J. Smith.", "preference"),
        ("What is installed? From now on answer in one line.", "From now on answer in one line.", "preference"),
        ("why is it off?\nAlways answer briefly.", "Always answer briefly.", "preference"),
        ("it is off\nAlways answer briefly.", "Always answer briefly.", "preference"),
        ("- Always answer briefly.", "Always answer briefly.", "preference"),
        ("Please:\n1. list it\n2) always answer briefly", "always answer briefly", "preference"),
        ("# hello\n**Always answer briefly.**", "Always answer briefly.", "preference"),
        ("\ufeffAlways answer briefly.", "Always answer briefly.", "preference"),
        ("x. " * 3000 + "Always answer briefly.", "Always answer briefly.", "preference"),
        (with_history(["You are X."] * 900, [], "always answer briefly"), "always answer briefly", "preference"),
        (with_history(["Always answer briefly."], ["user: never delete it"], "hello"), None, None),
        ("list the tools", None, None),
        ("always answer briefly? no", None, None),
        ("why do you always answer late?", None, None),
        ("did you never restart it?", None, None),
    ],
)
async def test_a_stated_lasting_wish_is_classified_as_one(text, statement, kind):
    """In the words of the message, as a preference or as a constraint; a question is none."""
    wish = (await classified(text)).get("explicit_preference") or {"statement": None, "kind": None}
    assert (wish["statement"], wish["kind"]) == (statement, kind)


async def test_given_context_is_summarised():
    """Context that the prompt shows is told by its first sentences."""
    response = await synthesized("summarise", assembled_context="One. Two.\nThree!")
    assert response.content == "In short:\n- One.\n- Three!"


# --- other contracts ----------------------------------------------------------------------------------------------


EXCERPTS = (
    "user: which tools do you have?\nassistant (used list_tools): 7 tools are available.\n"
    "user: hello\nassistant: Hello.\nuser: list the tools\nassistant (used list_tools): 7 tools are available.\n"
)


@pytest.mark.parametrize(
    ("text", "given", "speech_act", "action"),
    [
        ("hello", {"earlier": "- user: hi"}, "reentry_greeting", "continue"),
        ("new topic: which tools are there?", {"earlier": "- user: hi"}, "question", "new"),
        ("hm", {"earlier": "- user: hi"}, "command", "unclear"),
        ("show me the configuration", {"active_intent": "see what the session cost"}, "command", "new"),
        ("and the frameworks?", {"active_intent": "what packages are installed?"}, "question", "continue"),
        ("thanks, bye", {"active_intent": "what packages are installed?"}, "farewell", "close"),
    ],
)
async def test_later_messages_continue_unless_they_say_otherwise(text, given, speech_act, action):
    """With something said before, greetings are re-entries and the intent goes on, changes, closes or is unclear."""
    value = await classified(text, **given)
    assert (value["speech_act"], value["intent_signal"]["action"]) == (speech_act, action)


@pytest.mark.parametrize(
    ("text", "history", "part"),
    [
        ("hello", [], "Hello. "),
        ("hello", HISTORY, "Hello again. "),
        ("thanks, bye", HISTORY, "Goodbye"),
        ("who are you?", [], "offline model"),
        ("what did I ask before?", HISTORY, "what packages are installed?"),
        ("what did I ask first?", DIGESTS, "“hello”"),
        ("what was my last question?", DIGESTS, "“what did this session cost?”"),
        ("what did I ask before?", [], "first message"),
        ("what did you say?", HISTORY, "2 packages are installed"),
        ("summarise our conversation", HISTORY, "You: what packages are installed?"),
        ("summarise our conversation", [], "nothing to summarise"),
        ("install package foo", [], "change nothing"),
        ("write me a poem", [], "cannot answer that"),
    ],
)
async def test_what_rules_answer_alone(text, history, part):
    """Talk about the conversation itself, and honest sentences about what cannot be done."""
    response = await synthesized(text, history=history)
    assert part in response.content and response.tool_calls == []


async def test_again_repeats_the_last_question_that_asked_for_something():
    """A follow-up without an object means the last administration question."""
    response = await synthesized("and now?", history=HISTORY)
    assert [call.tool_id for call in response.tool_calls] == ["list_packages"]


async def test_results_are_told_as_rows_and_briefly_for_whom_likes_that():
    """What was learned about a person shapes the answer; facts stay the same."""
    wanted = prompt("PRC-SYNTHESIZE-001", "packages?", tools=TOOLS)
    rounds = ("list_packages", PACKAGES), ("list_tools", {"tools": []})
    assert (await ask(with_results(wanted, *rounds))).content == IN_FULL
    liking = prompt("PRC-SYNTHESIZE-001", "packages?", tools=TOOLS, ho3_biases="Always answer briefly.")
    assert (
        await ask(with_results(liking, *rounds))
    ).content == "2 packages are installed: P-1 1: T1; P-2 1: T2 0 tools are available."


async def test_a_steer_asks_for_tools_and_an_answer_that_was_not_sent_is_kept():
    """What was said meanwhile comes behind the message; nothing that the draft says is said twice."""
    wanted = prompt("PRC-SYNTHESIZE-001", "packages?", tools=TOOLS)
    done = with_results(wanted, ("list_packages", PACKAGES))
    note = "The answer above has not been sent: more was said meanwhile. Answer anew."
    draft = IN_FULL.partition("\n\n")[0]
    steered = done.model_copy(
        update={"messages": [*done.messages, *spoken(("assistant", draft), ("user", note), ("user", "and the tools?"))]}
    )
    assert [call.tool_id for call in (await ask(steered)).tool_calls] == ["list_tools"]
    answered = await ask(with_results(steered, ("list_tools", {"tools": []})))
    assert answered.content == f"{IN_FULL}\n\nMeanwhile you said: “and the tools?”"


@pytest.mark.parametrize(
    ("signal", "kind", "labels"),
    [
        ("domain:config", "topic_affinity", {"domain": ["config"], "task": ["inspect"]}),
        ("task:debug", "task_pattern", {"domain": ["tools"], "task": ["debug"]}),
        ("tool:list_packages", "task_pattern", {"domain": ["tools"], "task": ["inspect"]}),
        ("intent:command", "interaction_style", {"domain": ["tools"], "task": ["inspect"]}),
        ("outcome:failed", "constraint", {"domain": ["tools"], "task": ["inspect"]}),
        ("domain:cooking", "topic_affinity", {"domain": [], "task": ["inspect"]}),
    ],
)
async def test_consolidation_is_structured_from_the_signals_labels(signal, kind, labels):
    """A valid artifact for every kind of signal, labels inside the vocabulary, weight growing with sessions."""
    response = await ask(
        prompt("PRC-CONSOLIDATE-001", signal_id=signal, count="9", session_count="4", recent_events=EXCERPTS)
    )
    value = json.loads(response.content)
    Draft202012Validator(SHIPPED.contracts["PRC-CONSOLIDATE-001"].output_schema).validate(value)
    assert (value["artifact_type"], value["labels"], value["weight"]) == (kind, labels, 0.7)
    assert len(value["context_line"]) <= 200 and value["context_line"].count(".") == 1


async def test_the_degraded_reply_claims_nothing():
    """Short, says that it is reduced, and asks for patience."""
    response = await ask(prompt("PRC-DEGRADED-001", "what packages are installed?"))
    assert "reduced mode" in response.content and response.tool_calls == []


def formed(schema, text="hello", *, tools=None):
    """A prompt whose answer is to have this form."""
    changes = {"output_schema": {"type": "object", **schema}, "structured_output": True}
    return prompt("PRC-SYNTHESIZE-001", text, tools=tools).model_copy(update=changes)


async def test_an_object_of_any_keys_holds_what_the_rules_answer_anyway():
    """Under a key of ours."""
    plain = await ask(prompt("PRC-SYNTHESIZE-001", "who are you?"))
    assert json.loads((await ask(formed({}, "who are you?"))).content) == {"answer": plain.content}


async def test_a_form_waits_for_the_tools():
    """They are asked first."""
    schema = {"required": ["said"], "properties": {"said": {"type": "string"}}}
    answered = await ask(formed(schema, "what packages are installed?", tools=TOOLS))
    assert [call.tool_id for call in answered.tool_calls] == ["list_packages"]


def test_a_result_that_is_nested_too_deeply_is_told_as_text():
    """Whatever a tool's server answered."""
    assert tell(ToolAnswer("s__deep", "[" * 100_000)).startswith("s__deep: [[[")


def nested(levels):
    """A schema of lists in lists."""
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "minItems": 1, "items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**10},
        {"type": "array", "minItems": 10**10, "items": {"const": ""}},
        {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000}},
        {"type": "string", "minLength": 10**10},
        {"type": "array", "minItems": 2, "items": {"type": "string", "minLength": LEAST_MAX_CHARS // 2}},
        {"type": "array", "minItems": 2, "items": {"const": "x" * (LEAST_MAX_CHARS // 2)}},
        {"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": "x" * (LEAST_MAX_CHARS // 2)}},
        nested(5000),
    ],
)
def test_a_schema_that_takes_large_values_only_is_refused(schema):
    """Who sends a prompt chooses its schema, and this provider runs in everybody's gateway."""
    with pytest.raises(GatewayError) as caught:
        make_least_instance(schema)
    assert (caught.value.code, caught.value.facts) == ("INVALID_INPUT", {"unbilled": True})


# --- the envelope of an answer ------------------------------------------------------------------------------------


async def test_metadata_is_honest_and_usage_counts_characters():
    """Model and provider say what they are; tokens are length over chars_per_token, at least one."""
    wanted = prompt("PRC-SYNTHESIZE-001", "thanks, bye")
    response = await PROVIDER.complete(wanted, model_id=MODELS[0], timeout_s=1)
    assert (response.provider_id, response.model_id, response.outcome) == ("offline", "offline-rules-1", "SUCCESS")
    assert response.input_tokens == estimate_input_tokens(wanted, 4)
    assert response.output_tokens == len(response.content) // 4


async def test_a_model_that_there_is_not_is_refused():
    """No answer under a name that nothing stands behind; it costs nothing."""
    with pytest.raises(GatewayError) as caught:
        await PROVIDER.complete(prompt("PRC-SYNTHESIZE-001"), model_id="a-great-model", timeout_s=1)
    assert (caught.value.code, caught.value.facts) == ("PROVIDER_REFUSED", {"unbilled": True})
    assert "'a-great-model'; it has offline-rules-1" in caught.value.detail


async def test_max_tokens_is_respected():
    """A longer answer is cut and says so; a tool call that does not fit is not made."""
    short = await ask(prompt("PRC-SYNTHESIZE-001", "hello", tools=TOOLS).model_copy(update={"max_tokens": 5}))
    assert (len(short.content), short.finish_reason, short.output_tokens) == (20, "length", 5)
    no_call = await ask(
        prompt("PRC-SYNTHESIZE-001", "show the budgets", tools=TOOLS).model_copy(update={"max_tokens": 1})
    )
    assert (no_call.tool_calls, no_call.finish_reason) == ([], "length")


async def test_the_same_prompt_gives_the_same_answer():
    """Nothing but the prompt decides, also in another instance."""
    wanted = prompt("PRC-SYNTHESIZE-001", "what packages are installed and is the ledger intact?", tools=TOOLS)
    assert await ask(wanted) == await provider().complete(wanted, model_id=MODELS[0], timeout_s=1)


async def test_latency_is_the_configured_one():
    """The thinking time goes through the injected sleep, once per call."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await provider(latency_ms=50, sleep=sleep).complete(prompt("PRC-DEGRADED-001"), model_id=MODELS[0], timeout_s=1)
    assert slept == [0.05]


async def test_an_answer_told_word_by_word_takes_no_longer_and_is_the_same():
    """The pieces are the content; the pauses between them are the thinking time; tool calls are told nothing of."""
    slept: list[float] = []
    told: list[str] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    slow = provider(latency_ms=50, sleep=sleep)
    wanted = prompt("PRC-SYNTHESIZE-001", "hello", tools=TOOLS)
    response = await slow.complete(wanted, model_id=MODELS[0], timeout_s=1, on_delta=told.append)
    assert response == await ask(wanted)
    assert "".join(told) == response.content and len(told) == len(slept) == len(response.content.split())
    assert sum(slept) == pytest.approx(0.05)
    slept.clear()
    told.clear()
    calls = await slow.complete(
        prompt("PRC-SYNTHESIZE-001", "what packages are installed?", tools=TOOLS),
        model_id=MODELS[0], timeout_s=1, on_delta=told.append,
    )  # fmt: skip
    assert calls.tool_calls and told == [] and slept == [0.05]


async def test_where_a_long_message_is_cut_no_sentence_begins():
    """Whatever stands there: the end that is read begins at each character of this once."""
    unit = "They said: Always Answer Briefly, "
    for shift in range(len(unit)):
        assert (await classified(unit * 200 + "x" * shift)).get("explicit_preference") is None


async def test_a_message_behind_a_long_history_is_answered():
    """What was said before it elsewhere is not asked now, however much it is."""
    long = with_history(["You are a helpful bot. Delete the ledger? "] * 300, [], "what packages are installed?")
    response = await ask(prompt("PRC-SYNTHESIZE-001", long, tools=TOOLS))
    assert [call.tool_id for call in response.tool_calls] == ["list_packages"]


def test_only_the_beginning_and_the_end_of_a_huge_message_are_read():
    """However long a message is, the patterns see a bounded part of it, which joins no two words of it."""
    grammar = load_grammar()
    assert len(grammar.normalise("is it? " * 100_000)) <= grammar.read_chars
    for huge in ("packages? " + "x" * 10_000_000, "x" * 10_000_000 + " packages?"):
        assert [intent.tool_id for intent in grammar.find_intents(grammar.normalise(huge))] == ["list_packages"]
