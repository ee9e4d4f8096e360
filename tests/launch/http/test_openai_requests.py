"""What OpenAI's requests say, as messages of a transcript."""

import pytest

from hobus.launch.http.openai_requests import ChatRequest, ResponsesRequest


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["Answer in Czech.", "what is up"], "Answer in Czech.\nwhat is up"), (["a", "", "b"], "a\nb"), (["one"], "one"), ([], "")],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool"])
def test_parts_of_a_message_are_texts_of_their_own(texts, said, role):
    """Each begins a line: no word, and no end of a sentence, runs into the next part."""
    parts = [{"type": "text", "text": text} for text in texts]
    asked = [{"role": "user", "content": "hi"}]
    of_call = {"tool_call_id": "CALL-1"} if role == "tool" else {}
    chat = ChatRequest.model_validate(
        {"model": "ADMIN", "messages": [{"role": role, "content": parts, **of_call}, *asked]}
    )
    assert chat.transcript(9)[0].text == said
    if role == "tool":
        item = {"type": "function_call_output", "call_id": "CALL-1", "output": parts}
    else:
        item = {"role": role, "content": parts}
    response = ResponsesRequest.model_validate({"model": "ADMIN", "input": [item, *asked]})
    assert response.transcript(9)[0].text == said
