"""Routing, access, prices, retries, validation: plain functions at their borders."""

from __future__ import annotations

import contextlib
import json

import pytest

from bench.builders import SESSION, prompt
from hobus.bus.errors import GatewayError
from hobus.bus.limits import OUTPUT_ERRORS_MAX
from hobus.bus.messages.gateway import PromptMessage, ToolSpec
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.config.sections.gateway import ModelConfig, Route
from hobus.gateway_service.pricing import compute_cost_usd, estimate_input_tokens, settle_fault, settle_response
from hobus.gateway_service.routing import check_route, choose_route, may_try_again, pause_s
from hobus.gateway_service.validation import (
    authenticate,
    authorise,
    check_output,
    check_prompt,
    check_round,
    demand_own_key,
)
from tests.gateway_service.rig import SHIPPED, answered, snapshot

MODEL = ModelConfig(
    model_id="m", sees=False, input_usd_per_million=2.0, output_usd_per_million=8.0, cached_usd_per_million=0.5
)
ROUTED = snapshot(
    gateway={
        "providers": {
            name: {
                "kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 1,
                "models": [{"model_id": f"{name}-{n}", "sees": False, "input_usd_per_million": 0.0, "output_usd_per_million": 0.0,
                            "cached_usd_per_million": 0.0} for n in (1, 2)],
            }
            for name in ("offline", "big")
        },
        "default_route": {"provider_id": "offline", "model_id": "offline-1"},
        "domain_tag_routes": {"classification": {"provider_id": "offline", "model_id": "offline-2"},
                              "hard": {"provider_id": "big", "model_id": "big-2"}},
    }
).config.gateway  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "route"),
    [
        ({}, ("offline", "offline-1")),
        ({"domain_tags": ["unknown"]}, ("offline", "offline-1")),
        ({"domain_tags": ["unknown", "hard", "classification"]}, ("big", "big-2")),
        ({"provider_id": "big"}, ("big", "big-1")),
        ({"provider_id": "big", "domain_tags": ["classification"]}, ("big", "big-1")),
        ({"provider_id": "offline", "domain_tags": ["classification"]}, ("offline", "offline-2")),
        ({"provider_id": "big", "model_id": "x"}, ("big", "x")),
        ({"model_id": "x", "domain_tags": ["hard"]}, ("big", "x")),
        ({"model_id": "x"}, ("offline", "x")),
        ({"provider_id": "nowhere"}, ("nowhere", "")),
    ],
)
def test_routes_go_explicit_tag_default(changes, route):
    found = choose_route(prompt(**changes), ROUTED)
    assert (found.provider_id, found.model_id) == route


def test_an_empty_tag_map_leaves_the_default():
    assert choose_route(prompt(domain_tags=["hard"]), SHIPPED.config.gateway) == SHIPPED.config.gateway.default_route


def test_a_provider_must_be_configured_and_running():
    known = Route(provider_id="big", model_id="big-1")
    check_route(known, ROUTED, {"big": object()})
    for route, running in ((Route(provider_id="x", model_id="m"), {"x": object()}), (known, {})):
        with pytest.raises(GatewayError) as caught:
            check_route(route, ROUTED, running)
        assert caught.value.code == "PROVIDER_NOT_FOUND"


def test_a_model_must_be_one_of_its_provider_unless_that_takes_any():
    open_ = ROUTED.providers["big"].model_copy(update={"any_model": True})
    taking_any = ROUTED.model_copy(update={"providers": {"big": open_}})
    running = {"big": object()}
    check_route(Route(provider_id="big", model_id="new"), taking_any, running)
    for config, model_id in ((ROUTED, "new"), (ROUTED, "offline-1"), (ROUTED, ""), (taking_any, " ")):
        with pytest.raises(GatewayError) as caught:
            check_route(Route(provider_id="big", model_id=model_id), config, running)
        assert caught.value.code == "MODEL_NOT_FOUND"


def test_a_fault_that_says_so_itself_is_an_unknown_outcome():
    """A provider that hung up may have worked: it is asked again only where `on_unknown_outcome` says so."""
    fault = GatewayError("PROVIDER_ERROR", "it hung up", retryable=True, facts={"unknown": True})
    for said, expected in (("resend", True), ("fail", False)):
        config = SHIPPED.config.gateway.model_copy(update={"on_unknown_outcome": said})
        assert may_try_again(fault, 1, config) is expected


def test_a_model_that_is_not_configured_has_no_prices():
    assert ROUTED.row("big", "big-2") is not None
    assert ROUTED.row("big", "x") is None
    assert ROUTED.row("x", "x") is None


@pytest.mark.parametrize(
    "caller",
    [("", ""), ("", "ho1"), ("ho2/1@1", "ho1"), ("ho1/1@1", "")],
)
def test_a_caller_without_its_stamped_principal_is_nobody(caller):
    with pytest.raises(GatewayError) as caught:
        authenticate(*caller)
    assert caught.value.code == "AUTH_ERROR"


@pytest.mark.parametrize(
    ("role", "is_degraded", "changes"),
    [
        ("ho2", False, {}),
        ("host", False, {}),
        ("ho1", True, {"contract_id": "PRC-DEGRADED-001"}),
        ("host", True, {}),
        ("ho1", False, {"agent_id": "NOBODY"}),
    ],
)
def test_who_may_not_invoke_is_forbidden(role, is_degraded, changes):
    with pytest.raises(GatewayError) as caught:
        authorise(
            prompt(**changes), role, SHIPPED.config.gateway.default_route, SHIPPED.agents,
            is_degraded=is_degraded,
        )  # fmt: skip
    assert caught.value.code == "FORBIDDEN"


@pytest.mark.parametrize(
    ("message_id", "is_its_own"),
    [("WO-a#1", True), ("ho1/1@a:7", True), ("WO-a#2", False), ("WO-b#1", False)],
)
def test_a_prompt_asked_as_a_call_is_that_call_of_its_own_key(message_id, is_its_own):
    """Key and order are those under which the broker let it pass; a counted id says nothing."""
    with contextlib.nullcontext() if is_its_own else pytest.raises(GatewayError, match="FORBIDDEN"):
        demand_own_key(prompt("WO-a#1"), message_id)


@pytest.mark.parametrize("kind", ["providers", "models"])
def test_an_agent_may_use_only_what_its_permissions_name(kind):
    agent = SHIPPED.agents["ADMIN"]
    route = SHIPPED.config.gateway.default_route
    for names, is_allowed in (((route.provider_id, route.model_id), True), (("other",), False)):
        permissions = agent.permissions.model_copy(update={kind: names})
        agents = {"ADMIN": agent.model_copy(update={"permissions": permissions})}
        if is_allowed:
            authorise(prompt(), "ho1", route, agents, is_degraded=False)
        else:
            with pytest.raises(GatewayError):
                authorise(prompt(), "ho1", route, agents, is_degraded=False)


def test_input_is_estimated_over_everything_that_is_sent():
    tool = ToolSpec(tool_id="t" * 4, description="d" * 4, parameters={})
    call = ToolCall(call_id="001", tool_id="c" * 6, arguments={})
    messages = [
        PromptMessage(role="user", segments=[Segment(text="x" * 8), Segment(text="y" * 4)]),
        PromptMessage(role="assistant", tool_calls=[call]),
    ]
    assert estimate_input_tokens(prompt(messages=messages, tools=[tool]), 4) == -(-(12 + 6 + 2 + 4 + 4 + 2) // 4)
    assert estimate_input_tokens(prompt(text="x"), 4) == 1


def test_money_counts_cached_tokens_at_their_own_price():
    response = answered(input_tokens=1000, cached_tokens=400, output_tokens=100)
    assert compute_cost_usd(MODEL, response) == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 8.0) / 1e6)


def test_an_unknown_price_that_is_needed_makes_the_cost_unknown():
    """None for an unknown model, or a missing price of a kind that was used; a missing price of an unused kind is no matter."""
    no_cached = MODEL.model_copy(update={"cached_usd_per_million": None})
    assert compute_cost_usd(None, answered()) is None
    assert compute_cost_usd(no_cached, answered(cached_tokens=1)) is None
    assert compute_cost_usd(no_cached, answered()) is not None


def test_settlements_say_what_is_known():
    assert settle_response(answered(), MODEL).tokens == 12
    refused = settle_fault(GatewayError("PROVIDER_ERROR", "429", facts={"unbilled": True}), 99, MODEL)
    assert (refused.tokens, refused.cost_usd, refused.is_unknown, refused.was_sent) == (0, 0.0, False, True)
    partly = settle_fault(GatewayError("PROVIDER_ERROR", "x", facts={"input_tokens": 3}), 99, MODEL)
    assert (partly.tokens, partly.is_unknown) == (3, False)
    unknown = settle_fault(GatewayError("PROVIDER_TIMEOUT", "x"), 99, MODEL)
    assert (unknown.tokens, unknown.cost_usd, unknown.is_unknown) == (99, None, True)


@pytest.mark.parametrize(
    ("code", "retryable", "sends", "policy", "expected"),
    [
        ("PROVIDER_ERROR", True, 2, "resend", True),
        ("PROVIDER_ERROR", True, 3, "resend", False),
        ("PROVIDER_ERROR", False, 1, "resend", False),
        ("PROVIDER_TIMEOUT", True, 1, "resend", True),
        ("PROVIDER_TIMEOUT", True, 1, "fail", False),
        ("PROVIDER_ERROR", True, 1, "fail", True),
    ],
)
def test_retries_are_bounded_and_follow_the_policy(code, retryable, sends, policy, expected):
    config = SHIPPED.config.gateway.model_copy(update={"attempts_max": 3, "on_unknown_outcome": policy})
    assert may_try_again(GatewayError(code, "x", retryable=retryable), sends, config) is expected


@pytest.mark.parametrize(
    ("sends", "draw", "asked_ms", "expected"),
    [(1, 0.0, None, 0.05), (1, 1.0, None, 0.1), (3, 1.0, None, 0.4), (20, 1.0, None, 5.0), (1, 1.0, 700, 0.7)],
)
def test_pauses_grow_within_bounds_and_honour_retry_after(sends, draw, asked_ms, expected):
    facts = {} if asked_ms is None else {"retry_after_ms": asked_ms}
    assert pause_s(GatewayError("PROVIDER_ERROR", "x", facts=facts), sends, draw) == pytest.approx(expected)


def test_every_fault_of_a_prompt_is_named_at_once():
    with pytest.raises(GatewayError) as caught:
        check_prompt(prompt(key=" ", text=" ", contract_id="", session_id=" ", max_tokens=-1))
    for name in ("messages", "contract_id", "session_id", "max_tokens", "idempotency_key"):
        assert name in caught.value.detail


def test_a_key_has_room_in_ids_of_the_record():
    check_prompt(prompt(key="k" * 300))
    with pytest.raises(GatewayError, match=r"301 characters, at most 300"):
        check_prompt(prompt(key="k" * 301))


def test_as_many_faults_of_an_answer_are_named_as_one_reads():
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    answer = answered(json.dumps(dict.fromkeys("abcdefghijkl", 1)))
    judged = check_output(prompt(contract_id=JUDGED, output_schema=schema), answer, schema)
    assert len(judged.output_errors) == OUTPUT_ERRORS_MAX < 12


@pytest.mark.parametrize(
    ("wo_id", "is_refused"),
    [
        (f"WO-{SESSION}-1.50.1", False),
        (f"WO-{SESSION}-1.51.1", True),
        (f"WO-{SESSION}-99.51.3.002", True),
        ("WO-DEGRADED-i-1.99.1", False),
        ("WO-CONS-abc-99", False),
    ],
)
def test_a_round_beyond_the_turn_limit_is_refused(wo_id, is_refused):
    """The order's derived id tells its round; degraded calls and consolidations have none."""
    if is_refused:
        with pytest.raises(GatewayError) as caught:
            check_round(prompt(work_order_id=wo_id), 50)
        assert caught.value.code == "TURN_LIMIT"
    else:
        check_round(prompt(work_order_id=wo_id), 50)


JUDGED = "PRC-JUDGED-001"


def test_output_is_judged_only_where_there_is_something_to_judge():
    text, document, none = {"type": "string", "pattern": "\\S"}, {"type": "object"}, {"type": 5}
    call = ToolCall(call_id="001", tool_id="t", arguments={})

    def judged(schema, response):
        return check_output(prompt(contract_id=JUDGED, output_schema=schema), response, schema)

    assert check_output(prompt(contract_id=JUDGED), answered(), text).output_valid is None
    assert judged(text, answered(tool_calls=[call])).output_valid is None
    assert judged(text, answered("x")).output_valid is True
    assert judged(text, answered("")).output_valid is False
    assert judged(document, answered("{}")).output_valid is True
    broken = judged(none, answered("x"))
    assert broken.output_valid is False and "no JSON Schema" in broken.output_errors[0]
    outside = judged({"$ref": "http://127.0.0.1:1/x"}, answered("x"))
    assert outside.output_errors == ["output_schema refers to something outside itself"]


@pytest.mark.parametrize(
    "schema", [{"$ref": "http://127.0.0.1:1/x"}, {"type": "string", "pattern": "^([\\s\\S]+)+\\x00$"}, {"type": 5}]
)
def test_no_schema_that_a_prompt_brings_along_is_run_here(schema):
    """A pattern would hold up everybody's prompts, a reference make this process fetch it: not even by another id."""
    for of_contract in ({"type": "string"}, {"type": "object"}, None):
        response = check_output(prompt(contract_id=JUDGED, output_schema=schema), answered("x" * 40), of_contract)
        assert (response.output_valid, response.output_errors) == (None, [])
