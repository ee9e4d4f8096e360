"""Images of tools on both wires: as a model that sees is sent them, and as another one is."""

from __future__ import annotations

import base64

import pytest

from bench.builders import prompt, shipped_snapshot
from hobus.bus.messages.gateway import Prompt, PromptMessage, SeenImage
from hobus.bus.messages.work_order import Segment, ToolCall, ToolFile
from hobus.config.sections.gateway import AnthropicProvider, OpenAIProvider
from hobus.gateway_service import pricing
from hobus.gateway_service.limits import IMAGE_TOKENS
from hobus.gateway_service.providers.http import anthropic_wire, openai_wire
from hobus.gateway_service.providers.http.wire import ToolNames

PNG = b"\x89PNG\r\n\x1a\nrest"
TOLD = "[image a.png, image/png, 12 bytes]"
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
OPENAI = OpenAIProvider(
    kind="openai", base_url="http://127.0.0.1:1/v1", key=None, models=[], any_model=True, concurrency_max=None,
    max_tokens_field="max_tokens", structured="none", omit=[],
)  # fmt: skip
ANTHROPIC = AnthropicProvider(
    kind="anthropic", base_url="http://127.0.0.1:1", key=None, models=[], any_model=True, concurrency_max=None,
    structured="none", omit=[],
)  # fmt: skip


def after_a_round(*, sees: bool) -> Prompt:
    """A round of two calls, the first of which brought an image."""
    about = {"name": "a.png", "media_type": "image/png", "size_bytes": len(PNG), "ref": "WO_COMPLETED:w/i/2"}
    file = SeenImage(**about, data=PNG) if sees else ToolFile(**about)
    calls = [ToolCall(call_id=n, provider_call_id=f"p{n}", tool_id="draw", arguments={}) for n in ("1", "2")]
    return prompt().model_copy(
        update={
            "messages": [
                PromptMessage(role="user", segments=[Segment(text="draw")]),
                PromptMessage(role="assistant", tool_calls=calls),
                PromptMessage(role="tool", segments=[Segment(text=TOLD, files=[file])], tool_call_id="1"),
                PromptMessage(role="tool", segments=[Segment(text="nothing")], tool_call_id="2"),
                PromptMessage(role="user", segments=[Segment(text="hurry")]),
            ]
        }
    )


def test_chat_completions_show_images_behind_all_results_of_a_round():
    """A message of a tool holds text alone there, and the results of a round may not be parted."""
    wanted = after_a_round(sees=True)
    told = openai_wire.make_request(wanted, "m", ToolNames.of(wanted), OPENAI, stream=False)["messages"]
    assert [one["role"] for one in told] == ["user", "assistant", "tool", "tool", "user"]
    assert told[2]["content"] == TOLD
    images = [
        {"type": "text", "text": "[the image a.png of the tool's result above]"},
        {"type": "image_url", "image_url": {"url": URL}},
    ]
    assert told[4]["content"] == [*images, {"type": "text", "text": "hurry"}]
    ending = wanted.model_copy(update={"messages": wanted.messages[:-1]})
    at_the_end = openai_wire.make_request(ending, "m", ToolNames.of(wanted), OPENAI, stream=False)["messages"]
    assert at_the_end == [*told[:-1], {"role": "user", "content": images}]


def test_messages_show_images_in_the_result_of_their_tool():
    """As blocks behind its text."""
    wanted = after_a_round(sees=True)
    told = anthropic_wire.make_request(wanted, "m", ToolNames.of(wanted), ANTHROPIC, stream=False)["messages"]
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert [block["content"] for block in told[2]["content"][:2]] == [
        [{"type": "text", "text": TOLD}, {"type": "image", "source": source}],
        "nothing",
    ]


@pytest.mark.parametrize(("wire", "config"), [(openai_wire, OPENAI), (anthropic_wire, ANTHROPIC)])
def test_a_model_that_does_not_see_is_told_a_sentence(wire, config):
    """The same request as if there were no file at all."""
    wanted = after_a_round(sees=False)
    bare = [
        message.model_copy(update={"segments": [one.model_copy(update={"files": []}) for one in message.segments]})
        for message in wanted.messages
    ]
    names = ToolNames.of(wanted)
    plain = wanted.model_copy(update={"messages": bare})
    assert wire.make_request(wanted, "m", names, config, stream=False) == wire.make_request(
        plain, "m", names, config, stream=False
    )


def test_an_image_is_held_for_before_its_provider_counts_it():
    """No budget is passed by for free."""
    ratio = shipped_snapshot().config.attention.chars_per_token
    blind, seeing = (pricing.estimate_input_tokens(after_a_round(sees=sees), ratio) for sees in (False, True))
    assert seeing - blind == IMAGE_TOKENS


SEEN = SeenImage(name="a.png", media_type="image/png", size_bytes=len(PNG), ref="TURN_IMAGE:s/d/1", data=PNG)
EARLIER = "[the image a.png of an earlier message]"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("what is it\n\n" + TOLD + "\nand why?\n", ["what is it\n", SEEN, "and why?\n"]),
        (f"{TOLD}\nwhat is it\n{TOLD}", [SEEN, "what is it"]),
        (TOLD, [SEEN]),
        (f"it says {TOLD}", [EARLIER, SEEN, f"it says {TOLD}"]),
        ("and its colour?", [EARLIER, SEEN, "and its colour?"]),
    ],
)
def test_a_persons_words_are_theirs_alone_and_an_image_stands_where_its_line_did(text, parts):
    """Byte for byte, in parts of the very message; those of earlier messages before it, named by a part of its own."""
    messages = [
        PromptMessage(role="user", segments=[Segment(text="context")]),
        PromptMessage(role="user", segments=[Segment(text=text, files=[SEEN])]),
    ]
    wanted = prompt().model_copy(update={"messages": messages})
    names = ToolNames.of(wanted)

    def told(image):
        return [{"type": "text", "text": part} if isinstance(part, str) else image for part in ["context", *parts]]

    for config in (OPENAI, OPENAI.model_copy(update={"omit": ["text_parts"]})):
        [one] = openai_wire.make_request(wanted, "m", names, config, stream=False)["messages"]
        assert one["content"] == told({"type": "image_url", "image_url": {"url": URL}})
    [one] = anthropic_wire.make_request(wanted, "m", names, ANTHROPIC, stream=False)["messages"]
    one["content"][-1].pop("cache_control", None)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert one["content"] == told({"type": "image", "source": source})


def test_the_line_of_an_image_that_is_not_shown_says_so():
    """One too many, or erased: the model is told that there was one, and does not take it for one that it sees."""
    gone = ToolFile(name="b.png", media_type="image/png", size_bytes=7, ref="TURN_IMAGE:s/e/1")
    said = Segment(text=f"these\n{TOLD}\n{gone.told}", files=[SEEN, gone])
    wanted = prompt().model_copy(update={"messages": [PromptMessage(role="user", segments=[said])]})
    [one] = openai_wire.make_request(wanted, "m", ToolNames.of(wanted), OPENAI, stream=False)["messages"]
    assert [part.get("text") for part in one["content"]] == ["these", None, f"<not_shown>{gone.told}</not_shown>"]
    alone = PromptMessage(role="user", segments=[Segment(text=f"this\n{gone.told}", files=[gone])])
    [one] = openai_wire.make_request(
        wanted.model_copy(update={"messages": [alone]}), "m", ToolNames.of(wanted), OPENAI, stream=False
    )["messages"]
    assert one["content"] == f"this\n<not_shown>{gone.told}</not_shown>"
