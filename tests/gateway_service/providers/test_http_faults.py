"""Servers that refuse, fail, lie, drip and flood: each ends in one fault that says who, what and whether it cost."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from aiohttp.client_proto import ResponseHandler
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.builders import prompt
from bench.gateway.servers import (
    ANTHROPIC,
    DONE,
    KEY,
    OPENAI,
    USAGE_PIECE,
    Server,
    completion,
    head,
    instance,
    message,
    piece,
    serving,
)
from hobus.bus.errors import GatewayError
from hobus.gateway_service import limits
from hobus.gateway_service.breaker import judge_end
from hobus.gateway_service.providers.http import clients
from hobus.gateway_service.providers.http.faults import without_key
from tests.gateway_service.servers import answering, message_events, streaming

KINDS = pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
ASKED = "the moon is made of a very green cheese"


async def fault_of(provider, *, streamed: bool = False, timeout_s: float = 5.0, text: str = ASKED) -> GatewayError:
    """How a call ends."""
    await provider.prepare()
    on_delta = (lambda _text: None) if streamed else None
    with pytest.raises(GatewayError) as caught:
        await provider.complete(prompt(text=text), model_id="tiny", timeout_s=timeout_s, on_delta=on_delta)
    fault = caught.value
    assert (
        KEY not in str(fault) and KEY not in fault.detail and KEY not in repr(fault.facts) and ASKED not in fault.detail
    )
    assert fault.__cause__ is None, "a traceback of the SDK's would hold the request with its headers"
    return fault


REFUSALS = [
    (400, "PROVIDER_REFUSED", False, "unbilled", "refuses this request. It says: no such thing"),
    (401, "PROVIDER_REFUSED", False, "unbilled", "does not accept the key (env:THE_KEY)"),
    (403, "PROVIDER_REFUSED", False, "unbilled", "may not use model tiny"),
    (404, "PROVIDER_REFUSED", False, "unbilled", "there is no model tiny, or nothing at http://127.0.0.1"),
    (413, "PROVIDER_REFUSED", False, "unbilled", "too large"),
    (429, "PROVIDER_RATE_LIMITED", True, "unbilled", "takes no more for now"),
    (500, "PROVIDER_ERROR", True, "unbilled", "it failed"),
    (503, "PROVIDER_ERROR", True, "unbilled", "it failed"),
    (529, "PROVIDER_ERROR", True, "unbilled", "it failed"),
    (408, "PROVIDER_ERROR", True, "unknown", "it failed"),
    (502, "PROVIDER_ERROR", True, "unknown", "it failed"),
    (504, "PROVIDER_ERROR", True, "unknown", "it failed"),
]


@pytest.mark.slow
@KINDS
@BOTH
async def test_each_status_says_who_refused_and_what_fixes_it(kind, streamed):
    """Asked once: the pipeline repeats, nobody else. What stands between may not know whether the provider worked."""
    answers = iter([answering({"error": {"message": "no such thing", "type": "x"}}, status) for status, *_ in REFUSALS])

    async def behave(request, writer):
        await next(answers)(request, writer)

    told = []
    async with serving(behave) as server:
        provider = instance(kind, server.url)
        for status, _, _, cost, words in REFUSALS:
            fault = await fault_of(provider, streamed=streamed)
            costs = cost if fault.facts.get(cost) is True else fault.facts
            is_said = f"provider mine answered {status}: " in fault.detail and words in fault.detail
            told.append(
                (fault.facts.get("status"), fault.code, fault.retryable, costs, words if is_said else fault.detail)
            )
    assert told == REFUSALS
    assert len(server.requests) == len(REFUSALS)


async def test_a_used_up_quota_is_not_waited_for():
    """It wears the status of a rate limit."""
    async with serving(answering({"error": {"message": "pay", "code": "insufficient_quota"}}, 429)) as server:
        fault = await fault_of(instance(OPENAI, server.url))
    assert (fault.code, fault.retryable) == ("PROVIDER_RATE_LIMITED", False)


@KINDS
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirection_is_not_followed(kind, status):
    """The key goes to no other address than its own."""
    async with serving(answering(completion())) as elsewhere:
        async with serving(answering("", status, location=f"{elsewhere.url}/v1/chat/completions")) as server:
            fault = await fault_of(instance(kind, server.url))
        assert elsewhere.requests == []
    assert (fault.code, fault.retryable) == ("PROVIDER_REFUSED", False) and "it redirects" in fault.detail


@KINDS
async def test_nobody_listening_is_unsent_and_free(kind):
    """No byte of the prompt has left."""
    async with serving(answering("")) as server:
        url = server.url
    fault = await fault_of(instance(kind, url))
    assert (fault.code, fault.retryable, fault.facts) == ("PROVIDER_ERROR", True, {"unbilled": True})
    assert f"cannot be reached at {url}" in fault.detail and "(Connect call failed ('127.0.0.1'" in fault.detail
    assert "Error" not in fault.detail, "words, and no names of classes"


@KINDS
async def test_a_kept_connection_that_its_server_has_closed_is_replaced(kind, monkeypatch):
    """Some servers close theirs behind a streamed answer, without a word, while the next request is on its way."""
    async with serving(answering(completion() if kind == OPENAI else message())) as server:
        provider = instance(kind, server.url)
        await provider.prepare()
        monkeypatch.setattr(ResponseHandler, "is_connected", lambda _self: True)  # as it seems until the end is read
        for asked in (1, 2):
            assert (await provider.complete(prompt(), model_id="tiny", timeout_s=5)).content == "fine"
            assert len(server.requests) == asked
            for kept in provider._client._session.connector._conns.values():
                for handler, _since in kept:
                    handler.transport.close()


@KINDS
@BOTH
@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 200", head(content_length=500) + b'{"choi'], ids=["silent", "head", "half"]
)
async def test_a_prompt_that_was_read_and_hung_up_on_is_sent_and_unknown(kind, streamed, before):
    """Whoever read it may have worked on it: neither free nor certain."""

    async def behave(_request, writer):
        writer.write(before)
        await writer.drain()

    async with serving(behave) as server:
        fault = await fault_of(instance(kind, server.url), streamed=streamed)
    assert len(server.requests) == 1
    assert (fault.code, fault.retryable, fault.facts) == ("PROVIDER_ERROR", True, {"unknown": True})
    assert "closed the connection before its answer was whole" in fault.detail and "Error" not in fault.detail


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "null", '"text"', "7", '{"choices": []}', '{"choices": [7], "content": true}', '{"choices": {}}',
     "[" * 200_000, '{"a":' * 200_000, "\ufffe", "NaN"],
    ids=lambda body: body[:12] or "empty",
)  # fmt: skip
async def test_an_answer_that_is_none_is_a_fault_and_never_a_crash(kind, body):
    """Half a text, another type, nested until the parser gives up: the outcome is unknown, and another try may help."""
    async with serving(answering(body)) as server:
        fault = await fault_of(instance(kind, server.url))
    cost = "unbilled" if body in ('"text"', "\ufffe") else "unknown"  # a text is the server's word of its trouble
    assert (fault.code, fault.retryable) == ("PROVIDER_ERROR", True) and fault.facts.get(cost) is True


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (OPENAI, completion(choice={"finish_reason": ["stop"]})),
        (ANTHROPIC, message([{"type": "text", "text": ["x"]}])),
        (ANTHROPIC, message([["text"]])),
    ],
)
async def test_an_answer_with_a_wrong_type_in_it_is_a_fault(kind, answer):
    """Nothing of an answer is taken for what it is not."""
    async with serving(answering(answer)) as server:
        fault = await fault_of(instance(kind, server.url))
    assert fault.code == "PROVIDER_ERROR" and "cannot be used" in fault.detail


def lines(text: str):
    """A stream of these lines."""
    return streaming([], end=text.encode())


FELL = "GPU fell over"
ERRORS_IN_200 = {
    "error": (answering({"id": "1", "error": {"code": 502, "message": FELL}}), 502),
    "type": (answering({"error": {"type": "overloaded_error", "message": FELL}}), 529),
    "number as text": (answering({"error": {"code": "429", "message": FELL}}), 429),
    "unknown key": (answering({"error": {"code": 401, "message": FELL}}), 401),
    "text": (answering({"error": FELL}), 500),
    "error_msg": (answering({"error_code": 336, "error_msg": FELL}), 500),
    "base_resp": (answering({"choices": None, "base_resp": {"status_code": 1004, "status_msg": FELL}}), 500),
    "list": (answering([{"error": {"code": 503, "message": FELL}}]), 503),
    "detail": (answering({"detail": FELL}), 500),
    "many lines": (answering(json.dumps({"error": {"code": 502, "message": FELL}}, indent=1)), 502),
    "plain text": (answering(FELL, content_type="text/plain"), 500),
    "plain text as JSON": (answering(FELL), 500),
    "plain text as events": (lines(f"{FELL}\n"), 500),
    "JSON as events": (lines(json.dumps({"error_msg": FELL})), 500),
    "error line": (lines(f'error: {{"code": 503, "message": "{FELL}"}}\n\n'), 503),
    "error line in text": (lines(f"error: {FELL}\n\n"), 500),
    "event error": (lines(f'event: error\ndata: {{"code": 503, "message": "{FELL}"}}\n\n'), 503),
    "event error in text": (lines(f"event: error\ndata: {FELL}\n\n"), 500),
    "event": (lines(f'data: {{"error": {{"code": 503, "message": "{FELL}"}}}}\n\n'), 503),
    "event without an end": (lines(f'data: {{"error": {{"code": 503, "message": "{FELL}"}}}}'), 503),
    "event in text": (lines(f"data: {FELL}\n\n"), 500),
}
"""What a server answers, and the status that it should have had."""


@KINDS
@BOTH
@pytest.mark.parametrize(("behave", "status"), ERRORS_IN_200.values(), ids=ERRORS_IN_200)
async def test_an_error_inside_a_200_is_the_one_that_it_is(kind, streamed, behave, status):
    """The provider's own sentence is told, under the status that it should have had, and it costs what that costs."""
    async with serving(behave) as server:
        fault = await fault_of(instance(kind, server.url), streamed=streamed)
    cost = "unknown" if status == 502 else "unbilled"
    assert (fault.facts["status"], fault.facts[cost]) == (status, True) and f"It says: {FELL}" in fault.detail
    words = {401: "does not accept the key", 429: "takes no more for now"}.get(status, "it failed")
    assert words in fault.detail and "provider mine answered 200 with an error in it" in fault.detail


@pytest.mark.parametrize(
    "trouble", [FELL, f'error: {{"message": "{FELL}"}}', f"event: error\ndata: {FELL}", f'{{"error_msg": "{FELL}"}}']
)
async def test_an_error_in_the_middle_of_a_stream_is_told(trouble):
    """The provider's own sentence, and not only that the answer broke off."""
    async with serving(streaming([piece(content="hel")], end=f"{trouble}\n\n".encode())) as server:
        fault = await fault_of(instance(OPENAI, server.url), streamed=True)
    assert f"It says: {FELL}" in fault.detail and fault.facts["unknown"] is True


@KINDS
@BOTH
async def test_a_refusal_inside_a_200_is_one_and_free(kind, streamed):
    """As under its own status: neither sent again nor counted for the breaker."""
    async with serving(answering({"error": {"code": 400, "message": "no such field"}})) as server:
        fault = await fault_of(instance(kind, server.url), streamed=streamed)
    assert (fault.code, fault.retryable, judge_end(fault)) == ("PROVIDER_REFUSED", False, "nothing")
    assert fault.facts == {"status": 400, "unbilled": True}


@BOTH
async def test_an_error_inside_a_200_with_its_usage_costs_that(streamed):
    """It says so itself."""
    said = {"error": {"message": FELL}, "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    async with serving(answering(said)) as server:
        fault = await fault_of(instance(OPENAI, server.url), streamed=streamed)
    assert fault.facts == {"status": 500, "input_tokens": 9, "output_tokens": 2}


async def test_an_error_behind_the_beginning_of_a_stream_costs_what_that_said():
    """Anthropic's begins with the usage of the prompt; nothing was made of it."""
    trouble = ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    events = [*message_events()[:2], trouble]
    async with serving(streaming(events)) as server:
        fault = await fault_of(instance(ANTHROPIC, server.url), streamed=True)
    assert fault.facts["status"] == 529 and fault.facts["input_tokens"] > 0
    assert not fault.facts.keys() & {"unknown", "unbilled"}


PAGES = ["<!DOCTYPE html>\n<html><body>hi: there</body></html>", "\n <html lang='en'>", "<!-- a --><!doctype HTML>"]


@KINDS
@BOTH
@pytest.mark.parametrize("page", PAGES)
async def test_a_web_page_is_told_as_a_wrong_address(kind, streamed, page):
    """No trouble of the provider: its setting is named, nothing is sent again or counted."""
    async with serving(answering(page, content_type="text/html")) as server:
        fault = await fault_of(instance(kind, server.url), streamed=streamed)
        assert f"{server.url} answers with a web page" in fault.detail.replace("/v1", "")
    assert (fault.code, fault.retryable, judge_end(fault)) == ("PROVIDER_REFUSED", False, "nothing")
    assert "correct base_url" in fault.detail and fault.facts == {"unbilled": True}


@pytest.mark.parametrize("events", [[piece(content="hel")], [piece(content="hel"), piece("stop")]])
async def test_pieces_in_the_place_of_a_whole_answer_are_none(events):
    """Nobody knows whether the one that came is all."""
    async with serving(streaming(events)) as server:
        fault = await fault_of(instance(OPENAI, server.url))
    assert (fault.code, fault.retryable, fault.facts["unknown"]) == ("PROVIDER_ERROR", True, True)


async def test_a_text_behind_a_whole_answer_takes_nothing_from_it():
    """The model's last word was said."""
    async with serving(streaming([piece(content="seven"), piece("stop")], end=b"bye\n")) as server:
        provider = instance(OPENAI, server.url)
        answer = await provider.complete(prompt(), model_id="tiny", timeout_s=5, on_delta=len)
    assert answer.content == "seven"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (OPENAI, completion("seven")),
        (OPENAI, completion("seven", choice={"finish_reason": None})),
        (ANTHROPIC, message([{"type": "text", "text": "seven"}])),
    ],
    ids=["openai", "openai without its end", "anthropic"],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
@pytest.mark.parametrize("indent", [None, 1])
async def test_a_whole_answer_to_a_request_for_a_stream_is_the_answer(kind, answer, content_type, indent):
    """It is whole, whatever it is called and however it is written; who watches is told of it."""
    told = []
    async with serving(answering(json.dumps(answer, indent=indent), content_type=content_type)) as server:
        found = await instance(kind, server.url).complete(prompt(), model_id="tiny", timeout_s=5, on_delta=told.append)
    assert (found.content, "".join(told), found.finish_reason) == ("seven", "seven", "stop")
    assert not found.usage_is_estimated


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "context_length_exceeded", "message": "too long"}),
        (400, {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"}),
        (400, {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}),
        (500, {"message": "the request exceeds the available context size. try increasing the context size"}),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}),
        (400, {"message": "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000"}),
        (400, {"message": "The input token count (40000) exceeds the maximum number of tokens allowed (32768)."}),
        (400, {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}),
        (400, {"message": "Range of input length should be [1, 129024]"}),
        (422, {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}),
        (400, {"message": "Please reduce the length of the messages or completion."}),
        (400, {"message": "Input length exceeds the maximum tokens supported by this model."}),
        (413, {"message": "Input is too long for requested model."}),
        (422, {"message": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 `inputs` tokens and 2000"}),
        (200, {"message": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_prompt_beyond_the_models_window_is_told_with_the_mend(status, error):
    """Whatever a server calls it, and under whatever status; neither tried again nor counted by the breaker."""
    async with serving(answering({"error": error}, status)) as server:
        fault = await fault_of(instance(OPENAI, server.url))
    assert (fault.code, fault.retryable, judge_end(fault)) == ("CONTEXT_TOO_LONG", False, "nothing")
    assert "longer than the window of tiny" in fault.detail and "context_tokens" in fault.detail


VLLM = "This model's maximum context length is 4096 tokens. However, "


@pytest.mark.parametrize(
    ("error", "window", "tokens"),
    [
        (f"{VLLM}you requested 4368 tokens (387 in the messages, 3981 in the completion). Reduce them.", 4096, 387),
        (f"{VLLM}you requested 4388 tokens (387 in the messages, 20 in the functions, 3981 in the …).", 4096, 407),
        (f"{VLLM}your messages resulted in 5000 tokens. Please reduce the length of the messages.", 4096, 5000),
        (f"{VLLM}your request has 5000 input tokens. Please reduce the length of the input.", 4096, 5000),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 3981. This model's maximum context length is 4096 tokens "
                "and your request has 200 input tokens (3981 > 4096 - 200)."
            ),
            4096,
            200,
        ),
        (
            (
                "You passed 387 input tokens and requested 3981 output tokens. However, the model's context length is only "
                "4096 tokens, resulting in a maximum input length of 115 tokens."
            ),
            4096,
            387,
        ),
        (
            (
                "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
                "4368 tokens: 387 tokens from the input messages and 3981 tokens for the completion."
            ),
            4096,
            387,
        ),
        ("input length and `max_tokens` exceed context limit: 199000 + 3981 > 200000, decrease them", 200000, 199000),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200000, 210000),
        ("The input token count (40000) exceeds the maximum number of tokens allowed (32768).", 32768, 40000),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096, 5000),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32768, 40000),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 `inputs` tokens and 3981", 4096, 3000),
        ("the request exceeds the available context size (512 tokens), try increasing it", 512, 700),
        ("request (700 tokens) exceeds the available context size (512 tokens)", 512, 700),
        (f"{VLLM}you requested 4090 tokens (387 in the messages, 3703 in the completion).", None, None),
        (f"{VLLM}you requested {'9' * 100_000} tokens", None, None),
        (f"{VLLM}you requested 9{' ' * 100_000}tokens", None, None),
        ("context_length_exceeded", None, None),
    ],
    ids=lambda value: str(value)[-40:],
)
async def test_the_figures_of_a_refused_length_are_read(error, window, tokens):
    """Whatever words they stand in; where the refusal does not follow from them, none is believed."""
    said = {"message": error} | ({"n_ctx": 512, "n_prompt_tokens": 700} if "try increasing" in error else {})
    async with serving(answering({"error": said}, 400)) as server:
        with pytest.raises(GatewayError) as caught:
            await instance(OPENAI, server.url).complete(prompt(max_tokens=3981), model_id="tiny", timeout_s=5)
    facts = caught.value.facts
    assert caught.value.code == "CONTEXT_TOO_LONG"
    assert (facts.get("window"), facts.get("prompt_tokens")) == (window, tokens)


CAPS = [
    "max_tokens is too large: 99999",
    "max_tokens is too large: 4096. This model supports at most 2048 completion tokens, whereas you provided 4096.",
    "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for tiny",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
        "`context_window` for this model"
    ),
    "Range of max_tokens should be [1, 8192]",
    "it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
    "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value.",
    "`max_new_tokens` must be <= 512. Given: 1000",
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens "
        "and your request has 20 input tokens (5000 > 4096 - 20)."
    ),
]


@pytest.mark.parametrize("message", CAPS)
@pytest.mark.parametrize("status", [400, 200])
async def test_a_cap_that_the_model_does_not_take_is_told_with_its_settings(status, message):
    """The prompt may be as short as can be."""
    async with serving(answering({"error": {"message": message, "code": 400}}, status)) as server:
        fault = await fault_of(instance(OPENAI, server.url))
    assert (fault.code, fault.retryable, judge_end(fault)) == ("PROVIDER_REFUSED", False, "nothing")
    assert f"tiny does not take a cap of {prompt().max_tokens} tokens" in fault.detail
    assert "boundary.max_tokens of PRC-" in fault.detail and "window" not in fault.detail.partition("It says")[0]


async def test_another_name_of_the_cap_is_told_with_its_setting():
    """OpenAI's reasoning models refuse the older one."""
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    async with serving(answering({"error": {"message": said}}, 400)) as server:
        fault = await fault_of(instance(OPENAI, server.url))
    assert fault.code == "PROVIDER_REFUSED" and "set gateway.providers.mine.max_tokens_field" in fault.detail


@pytest.mark.parametrize(
    "message",
    [
        "temperature exceeds the maximum",
        "no such tool",
        "the input image exceeds the maximum size of 5 MB",
        "Input tokens per minute exceed the limit of this organization",
        "your quota of tokens has been exceeded, the maximum is 1000000",
    ],
)
async def test_another_refusal_is_no_matter_of_the_window(message):
    """Its words name no prompt that is too long."""
    async with serving(answering({"error": {"message": message}}, 400)) as server:
        assert (await fault_of(instance(OPENAI, server.url))).code == "PROVIDER_REFUSED"


@BOTH
async def test_half_a_character_in_the_bytes_of_an_answer_spoils_itself_alone(streamed):
    """A server that cut a string in the middle."""
    broken = (
        json.dumps(piece(content="7 ?") if streamed else completion("7 ?")).encode().replace(b"?", "😀".encode()[:2])
    )
    rest = b"\n\n" + b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (piece("stop"), USAGE_PIECE))

    async def behave(request, writer):
        if streamed:
            writer.write(head(content_type="text/event-stream") + b"data: " + broken + rest + DONE)
        else:
            await answering(broken)(request, writer)

    async with serving(behave) as server:
        provider = instance(OPENAI, server.url)
        answer = await provider.complete(prompt(), model_id="tiny", timeout_s=5, on_delta=len if streamed else None)
    assert answer.content == "7 \ufffd"


@pytest.mark.parametrize(
    ("kind", "events", "end"),
    [
        (OPENAI, [piece(content="hel")], b""),
        (OPENAI, [piece(content="hel")], b'data: {"choi\n\n'),
        (OPENAI, [piece(content="hel"), {"error": {"message": "overloaded", "type": "server_error"}}], b""),
        (ANTHROPIC, message_events(({"type": "text", "text": "hel"}, []))[:4], b""),
        (
            ANTHROPIC,
            [
                *message_events(({"type": "text", "text": "hel"}, []))[:4],
                ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
            ],
            b"",
        ),
    ],
    ids=["closed", "half", "error", "closed-a", "error-a"],
)
async def test_a_stream_that_breaks_off_is_no_answer(kind, events, end):
    """What was said until then is taken back by whoever watches; the call may have cost anything."""
    async with serving(streaming(events, end=end)) as server:
        fault = await fault_of(instance(kind, server.url), streamed=True)
    assert (fault.code, fault.retryable, fault.facts["unknown"]) == ("PROVIDER_ERROR", True, True)
    assert "unbilled" not in fault.facts


@KINDS
async def test_a_stream_without_a_newline_ends_and_holds_nobody_up(kind):
    """As much as comes until the bound is read, and everybody else has a turn meanwhile."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    async def behave(_request, writer):
        writer.write(head(content_type="text/event-stream") + b"data: ")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with serving(behave) as server:
        ticking = asyncio.ensure_future(tick())
        provider = instance(kind, server.url)
        await provider.prepare()
        answer = await provider.complete(prompt(), model_id="tiny", timeout_s=20, on_delta=len)
        ticking.cancel()
    assert (answer.finish_reason, answer.content, answer.tool_calls) == ("too_large", "", [])
    assert longest < 1.0


@KINDS
@BOTH
async def test_an_answer_without_an_end_is_given_up_at_its_bound(kind, streamed, monkeypatch):
    """A hundred megabytes are never held; what was said until then is an answer that is cut, at the price of its cap."""
    monkeypatch.setattr(limits, "ANSWER_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "STREAM_MAX_BYTES", 1 << 20)
    sent = 0

    async def behave(_request, writer):
        nonlocal sent
        kind_ = "text/event-stream" if streamed else "application/json"
        writer.write(head(content_type=kind_))
        for _ in range(1600):
            writer.write(b": " + b"x" * 65533 + b"\n")
            sent += 65536
            await writer.drain()

    async with serving(behave) as server:
        provider = instance(kind, server.url)
        await provider.prepare()
        answer = await provider.complete(prompt(), model_id="tiny", timeout_s=20, on_delta=len if streamed else None)
    assert (answer.finish_reason, answer.output_tokens, answer.usage_is_estimated) == (
        "too_large",
        prompt().max_tokens,
        True,
    )
    assert sent < 50 << 20


@pytest.mark.parametrize(("size", "finish"), [(2 << 20, "tool_calls"), (9 << 20, "too_large")])
async def test_a_call_with_megabytes_of_arguments_in_one_line_is_the_models_mistake(size, finish):
    """It is told of too long ones; what is larger than any answer is cut, with what was said before, and no call."""
    call = {"index": 0, "id": "1", "function": {"name": "add", "arguments": json.dumps({"a": "x" * size})}}
    events = [piece(content="so: "), piece(tool_calls=[call]), piece("tool_calls"), USAGE_PIECE]
    async with serving(streaming(events)) as server:
        provider = instance(OPENAI, server.url)
        answer = await provider.complete(prompt(), model_id="tiny", timeout_s=20, on_delta=len)
    assert (answer.content.strip(), answer.finish_reason) == ("so:", finish)
    assert [call.fault[:14] for call in answer.tool_calls] == ["its arguments "] * (finish == "tool_calls")


@KINDS
@BOTH
async def test_an_error_without_an_end_is_read_to_its_bound(kind, streamed):
    """The status counts; of its words the beginning is enough."""

    async def behave(_request, writer):
        writer.write(head(500, content_type="application/json"))
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with serving(behave) as server:
        fault = await fault_of(instance(kind, server.url), streamed=streamed, timeout_s=20)
    assert (fault.code, fault.facts["status"]) == ("PROVIDER_ERROR", 500) and len(fault.detail) < 400


@KINDS
async def test_a_head_that_proxies_filled_is_read(kind):
    """As that of any other client."""
    more = {"content-security-policy": "x" * 100_000} | {f"x-{number}": "1" for number in range(300)}
    async with serving(answering(completion() if kind == OPENAI else message(), **more)) as server:
        provider = instance(kind, server.url)
        await provider.prepare()
        assert (await provider.complete(prompt(), model_id="tiny", timeout_s=5)).content == "fine"


async def test_a_certificate_counts_where_its_authority_is_named(tmp_path, monkeypatch):
    """Elsewhere nothing is sent, and the fault says how to trust it."""
    paths = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*paths)
    server = Server(answering(completion()))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        fault = await fault_of(instance(OPENAI, url))
        assert (fault.code, fault.retryable, fault.facts) == ("PROVIDER_REFUSED", False, {"unbilled": True})
        assert "not trusted" in fault.detail and "SSL_CERT_FILE" in fault.detail and not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
        clients._load_trusted.cache_clear()
        with pytest.raises(GatewayError, match="SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"):
            await instance(OPENAI, url).prepare()
        monkeypatch.setenv("SSL_CERT_FILE", str(paths[0]))
        clients._load_trusted.cache_clear()
        try:
            provider = instance(OPENAI, url)
            await provider.prepare()
            assert (await provider.complete(prompt(), model_id="tiny", timeout_s=5)).content == "fine"
        finally:
            clients._load_trusted.cache_clear()


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for this machine, signed by itself, and of its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
    pem = serialization.Encoding.PEM
    texts = {
        "cert": made.sign(key, hashes.SHA256()).public_bytes(pem),
        "key": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    }
    for part, text in texts.items():
        (directory / part).write_bytes(text)
    return directory / "cert", directory / "key"


@KINDS
async def test_a_packed_answer_is_not_unpacked(kind):
    """Some bytes may unpack to a gigabyte (here: five thousand to a million); nobody asked for it packed."""
    bomb = gzip.compress(b"0" * (1 << 20), compresslevel=1)
    async with serving(answering(bomb, content_encoding="gzip")) as server:
        fault = await fault_of(instance(kind, server.url))
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert "it is packed (gzip)" in fault.detail
    async with serving(answering(bomb, 500, content_encoding="gzip")) as server:
        fault = await fault_of(instance(kind, server.url))
        assert fault.facts["status"] == 500 and fault.detail.endswith("it failed")


@KINDS
@BOTH
async def test_a_byte_a_second_ends_with_the_deadline_and_the_connection_with_it(kind, streamed):
    """Whoever asks bounds the whole of it, as the gateway does; the server sees the close at once."""

    async def behave(_request, writer):
        writer.write(head(content_type="text/event-stream" if streamed else "application/json"))
        for number, char in enumerate("data: " + "x" * 1000):
            writer.write(char.encode())
            await writer.drain()
            if number == 3:
                deadline.reschedule(0)  # is over
            await asyncio.sleep(0.01)

    async with serving(behave) as server:
        provider = instance(kind, server.url)
        await provider.prepare()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5) as deadline:
                await provider.complete(prompt(), model_id="tiny", timeout_s=5, on_delta=len if streamed else None)
        for _ in range(1000):
            if server.closed:
                break
            await asyncio.sleep(0.002)
        assert server.closed == 1


async def test_silence_ends_with_the_time_that_was_given():
    """The outcome is unknown: it may be working."""

    async def behave(_request, _writer):
        await asyncio.sleep(60)

    async with serving(behave) as server:
        faults = await asyncio.gather(
            *(fault_of(instance(kind, server.url), timeout_s=0.3) for kind in (OPENAI, ANTHROPIC))
        )
    assert len(server.requests) == 2
    assert [(fault.code, fault.facts) for fault in faults] == [("PROVIDER_TIMEOUT", {"unknown": True})] * 2


async def test_the_time_to_wait_is_carried():
    """From the header to the fault."""
    async with serving(answering({}, 429, retry_after="3")) as server:
        assert (await fault_of(instance(OPENAI, server.url))).facts["retry_after_ms"] == 3000


@KINDS
async def test_no_fault_repeats_the_key_or_the_prompt(kind):
    """A server may send back all that it got, whole or in part."""
    for words in (f"bad key {KEY}", f"bad key {KEY[:12]}…", f"you asked: {ASKED}", f"x {ASKED[5:30]}"):
        async with serving(answering({"error": {"message": words}}, 401)) as server:
            fault = await fault_of(instance(kind, server.url))
        assert KEY[:8] not in fault.detail and ASKED[5:30] not in fault.detail


@KINDS
async def test_no_fault_repeats_a_key_that_stands_in_what_is_quoted(kind):
    """A header that was folded on its way."""
    async with serving(answering("x", content_encoding=KEY.upper())) as server:
        fault = await fault_of(instance(kind, server.url))
    assert KEY[:8] not in fault.detail.lower() and "(hidden)" in fault.detail


def test_a_key_is_hidden_in_whole_and_in_part():
    """Eight of its characters in a row are enough to tell it."""
    assert without_key(f"a {KEY} b", KEY) == "a (hidden) b"
    assert without_key(f"a {KEY[3:14]} b", KEY) == "a (hidden) b"
    assert without_key(f"a {KEY.upper()} b", KEY) == without_key(f"a {KEY} b", KEY.title()) == "a (hidden) b"
    assert without_key("nothing here", KEY) == "nothing here"
    assert without_key("anything", "") == "anything"


async def test_a_missing_sdk_says_what_to_install(monkeypatch):
    """The extra of its kind; nothing was sent."""
    provider = instance(OPENAI, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(GatewayError, match=r"openai is not installed; pip install 'hobus\[openai\]'") as caught:
        await provider.prepare()
    assert caught.value.code == "PROVIDER_UNUSABLE"


@KINDS
async def test_an_address_that_no_library_takes_is_a_fault_with_its_setting(kind):
    """The configuration's own look at it is a shorter one."""
    provider = instance(kind, "http://1.2.3.999")
    with pytest.raises(GatewayError, match=r"correct gateway\.providers\.mine\.base_url") as caught:
        await provider.prepare()
    assert caught.value.code == "PROVIDER_UNUSABLE"


async def test_a_key_that_is_not_there_is_told_before_anything_is_sent_and_looked_for_again():
    """Somebody puts it there, and the next call finds it."""
    async with serving(answering(json.dumps(completion()))) as server:
        provider = instance(OPENAI, server.url)
        there: dict[str, str] = {}
        provider.given = lambda: there
        with pytest.raises(GatewayError) as caught:
            await provider.prepare()
        assert caught.value.code == "PROVIDER_UNUSABLE" and server.requests == []
        there["THE_KEY"] = KEY
        await provider.prepare()
        await provider.complete(prompt(), model_id="tiny", timeout_s=5)
    assert len(server.requests) == 1


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_stream_is_ended_for_its_silence_and_not_for_its_length(kind, is_silent):
    """An answer of several times the silence that is allowed comes whole; the fault names the setting, and is final."""
    deltas = [{"type": "text_delta", "text": "a"}] * 8
    events = (
        [*[piece(content="a")] * 8, piece("stop"), DONE]
        if kind is OPENAI
        else message_events(({"type": "text", "text": ""}, deltas))
    )
    async with serving(streaming(events, pause_s=2.0 if is_silent else 0.15)) as server:
        provider = instance(kind, server.url, gateway={"stream_silence_ms": 600})
        if is_silent:
            fault = await fault_of(provider, streamed=True, timeout_s=20)
            assert (fault.code, fault.retryable) == ("PROVIDER_TIMEOUT", False)
            assert "said nothing for too long (gateway.stream_silence_ms)" in fault.detail
        else:
            answer = await provider.complete(prompt(), model_id="tiny", timeout_s=20, on_delta=len)
            assert answer.content == "a" * 8
