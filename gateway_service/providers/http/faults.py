"""What went wrong at a provider, in this system's words: which provider, what it said, and what fixes it.

A fault says whether asking again may help (`retryable`), when (`retry_after_ms`), and what the call cost: `unbilled`
where the provider refused before any work, its figures where it gave them; `unknown` where it may have worked and
nobody can say. No fault holds a key or words of the prompt: what a server says is read, shown and recorded without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.config.secret_refs import HIDDEN
from hobus.config.sections.gateway import AnthropicProvider, OpenAIProvider
from hobus.gateway_service.limits import SAID_MAX_CHARS
from hobus.gateway_service.providers.http.reader import ErrorSaid
from hobus.gateway_service.providers.http.retry_after import retry_after_ms
from hobus.gateway_service.providers.http.wire import SENTENCES, BadAnswer
from hobus.gateway_service.routing import describe_window_mend


class AnswerRefused(Exception):
    """The answer came in a form that nobody reads; the message says which."""


class AnswerTooLarge(AnswerRefused):
    """More came than anybody reads; the message names the limit."""


class ErrorStatus(Exception):
    """The answer is an error, or a redirection; `body` is JSON, or the text that came."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


class CallUnparsed(Exception):
    """The model wrote a tool call that its server could not read; the message is the server's sentence."""


TOO_LARGE = "is_too_large"
"""Fact of a fault: some of the answer came, and more than is read."""

_KEY_PART_CHARS = 8
"""So many characters of a key in a row are too many."""

_SECRET_CHARS = 16
"""A shorter key is a word that a local server wants to see (`EMPTY`, `ollama`): in an answer it is a word."""


def without_key(text: str, key: str) -> str:
    """Hide the key in the text of a fault, with every part of it that can be told from other words.

    In whatever case: some of what is quoted was folded on its way.
    """
    text = _hide_whole(text, key)
    folded_key, at = key.lower(), 0
    while at + _KEY_PART_CHARS <= len(text):
        if text[at : at + _KEY_PART_CHARS].lower() not in folded_key:
            at += 1
            continue
        end = at + _KEY_PART_CHARS
        while end < len(text) and text[at : end + 1].lower() in folded_key:
            end += 1
        text = text[:at] + HIDDEN + text[end:]
        at += len(HIDDEN)
    return text


def hide_key(text: str, key: str) -> str:
    """Hide a whole key in what a model says; parts of one are left, for it may speak of how keys look."""
    return _hide_whole(text, key) if len(key) >= _SECRET_CHARS else text


def answer_without_key(answer: PromptResponse, key: str) -> PromptResponse:
    """Return the answer with the key in none of its texts."""
    if len(key) < _SECRET_CHARS:
        return answer
    calls = [call.model_copy(update=_hide(asdict(call), key)) for call in answer.tool_calls]
    return answer.model_copy(update=_hide(asdict(answer), key) | {"tool_calls": calls})


def _hide(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return hide_key(value, key)
    if isinstance(value, list):
        return [_hide(item, key) for item in value]
    if isinstance(value, dict):
        return {_hide(name, key): _hide(item, key) for name, item in value.items()}
    return value


def _hide_whole(text: str, key: str) -> str:
    if not key or key.lower() not in text.lower():
        return text
    return re.sub(re.escape(key), HIDDEN, text, flags=re.IGNORECASE)


_QUOTED_CHARS = 16
"""So many characters of the prompt in a row are a quotation of it."""

_MAY_HAVE_WORKED = frozenset({408, 502, 504, 520, 522, 524})
"""Said by what stands before a provider, which does not know what became of the request behind it."""

_OF_TYPES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What an error in the middle of a stream is called, and the status that it would have had at its beginning."""

_FOREVER = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
"""Refusals that wear the status of a rate limit, and that no waiting ends."""

_CONTEXT = re.compile(
    r"context[ _-]?(length|size|window|limit)|prompt is too long|maximum (context|prompt)|input is too long"
    r"|(input|prompt|tokens?)\b.{0,80}\b(exceed\w*|too (long|large|many))\b"
    r".{0,80}\b(context|maximum|limit|tokens|window)"
    r"|reduce the length of the (messages|prompt|input)|longer than the max\w*.{0,20}\blength|range of input length",
    re.IGNORECASE | re.DOTALL,
)
"""How servers say that a prompt, with its answer, is longer than the model can read."""

_SUM = re.compile(
    r"(input|prompt|message)\w*\b[^.]{0,40}(\+|\band\b|\bplus\b|\bexceeds?( the)?\b)[^.]{0,5}max",
    re.IGNORECASE | re.DOTALL,
)
"""How they say of which two numbers: a prompt, and the cap of its answer."""

_WINDOW = re.compile(
    r"(?i)(?:[>=] ?|(?:context|model|prompt|configured) (?:length|window|size|limit)\b(?: is| of| only|[ :(]){0,4}"
    r"|allowed \()(\d{1,9})\b(?! ?[+>])|\b(\d{1,9}) maximum"
)
_TOTAL = re.compile(r"(?i)\brequested (?:about |a total of )?(\d{1,9}) tokens")
_PROMPT = re.compile(
    r"(?i)\b(\d{1,9})(?: tokens)?(?: \+ \d{1,9})? >|\b(\d{1,9})\W{1,3}(?:tokens )?(?:(?:in|from|of) )?\W?"
    r"(?:(?:the|your|text) )?(?:messages|prompt|inputs?)\b"
    r"|(?:resulted in|contains|count|prompt \(length|request) \(?(\d{1,9})\b"
)
"""How they name the figures: what the model can read, the prompt with the cap of its answer, and the prompt alone."""

_CAP_NAME = r"max(imum)?[_ ]?((completion|output|new)[_ ]?)?tokens"
_CAP = re.compile(
    rf"{_CAP_NAME}\b.{{0,60}}\b(too (large|high|big|small|low)|exceed\w*|(must|should|has to) be|at most|supported"
    rf"|valid|range|out of)\b|{_CAP_NAME}\W{{1,3}}\d+ ?[<>]|(invalid|range of|value (for|of)) \W?{_CAP_NAME}"
    r"|at most \d+ (completion|output) tokens|(allowed|maximum) number of (completion|output) tokens",
    re.IGNORECASE | re.DOTALL,
)
"""How they say that the cap alone is none that the model takes: a setting, whatever the prompt is."""

_CAP_UNKNOWN = re.compile(
    rf"(unsupported|unrecogni[sz]ed|unknown|unexpected)\W.{{0,40}}{_CAP_NAME}", re.IGNORECASE | re.DOTALL
)
"""How they say that they have another name for it."""

_NOT_OF_LENGTH = re.compile(
    r"\b(image|picture|audio|video|file|attachment)s?\b|\bquota\b|\bT[PK][MD]\b"
    r"|\b(per|a|each) (minute|min|hour|day|month)\b",
    re.IGNORECASE,
)
"""What else has a maximum: an attachment, a rate, an account."""

_UNPARSED_CALL = re.compile(r"(error|failed to) pars(e|ing) tool call|tool_use_failed", re.IGNORECASE)
"""How servers say that the model wrote a call that they could not read: Ollama, llama.cpp, Groq."""

_WEB_PAGE = re.compile(
    r"\s*(<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
"""An address behind which there is a page for people, as it begins."""

_CUT = frozenset({"ServerDisconnectedError", "ClientPayloadError", "ClientOSError"})
"""What the client raises where a connection ends too early."""

_LEAST_ERROR = 500
_TOO_MANY = 429


class AskedProvider(Struct, frozen=True):
    """What was asked, of whom: for the words of a fault."""

    provider_id: str
    config: OpenAIProvider | AnthropicProvider
    key: str
    model_id: str
    now: float
    """Seconds since 1970 UTC."""
    prompt: Prompt | None = None


def make_fault(
    error: BaseException, asked: AskedProvider, *, is_sent: bool, cost: Mapping[str, Any] | None = None
) -> GatewayError:
    """Return the fault of a call that ended with this error of its client, without the key.

    `is_sent`: whether a byte of the request may have left. `cost`: facts of what came before an error that an answer
    holds; without any it costs what its status says. Raises CallUnparsed for a mistake of the model's.
    """
    try:
        fault = _classify_error(error, asked, is_sent=is_sent, cost=cost or {})
    except CallUnparsed as unparsed:
        raise CallUnparsed(without_key(str(unparsed), asked.key)) from None
    detail = without_key(fault.detail, asked.key)
    return GatewayError(fault.code, detail, retryable=fault.retryable, facts=fault.facts)


def _classify_error(
    error: BaseException, asked: AskedProvider, *, is_sent: bool, cost: Mapping[str, Any]
) -> GatewayError:
    chain = list(_walk_chain(error))
    for cause in chain:
        if isinstance(cause, GatewayError):
            return cause
        if isinstance(cause, (BadAnswer, AnswerRefused)):
            return _make_unusable(cause, asked)
        if isinstance(cause, ErrorStatus):
            return _make_status_fault(cause.status, cause.headers, cause.body, asked)
        if isinstance(cause, ErrorSaid):
            return _make_said_fault(cause.body, asked, cost)
    if untrusted := next((words for cause in chain if (words := getattr(cause, "verify_message", ""))), ""):
        said = f"{asked.config.base_url} shows a certificate that is not trusted ({untrusted})"
        if "self" in untrusted or "issuer" in untrusted:
            said += ": let SSL_CERT_FILE name its authority's, and launcher.environment that variable"
        return GatewayError("PROVIDER_REFUSED", f"provider {asked.provider_id}: {said}", facts={"unbilled": True})
    if not is_sent:
        why = next((one.strerror for one in chain if isinstance(one, OSError) and one.strerror), "not in time")
        said = f"provider {asked.provider_id} cannot be reached at {asked.config.base_url} ({why})"
        return GatewayError("PROVIDER_ERROR", f"{said}: is it running there?", retryable=True, facts={"unbilled": True})
    if any("Timeout" in type(cause).__name__ for cause in chain):
        detail = f"provider {asked.provider_id} said nothing for too long (gateway.stream_silence_ms)"
        return GatewayError("PROVIDER_TIMEOUT", detail, facts={"unknown": True})
    is_cut = any(isinstance(cause, ConnectionError) or type(cause).__name__ in _CUT for cause in chain)
    names = " from ".join(type(cause).__name__ for cause in chain[:3])
    said = (
        "closed the connection before its answer was whole" if is_cut else f"gave no answer that can be read ({names})"
    )
    return GatewayError(
        "PROVIDER_ERROR",
        f"provider {asked.provider_id} {said}"
        + ("; it may have worked on the prompt" if asked.prompt is not None else ""),
        retryable=True,
        facts={"unknown": True},
    )


def _make_said_fault(body: Any, asked: AskedProvider, cost: Mapping[str, Any]) -> GatewayError:
    """Return the fault of an error in the place of an answer, or in the middle of one."""
    if isinstance(body, str) and _WEB_PAGE.match(body):
        page = f"{asked.config.base_url} answers with a web page, and not with JSON; correct base_url"
        return GatewayError("PROVIDER_REFUSED", f"provider {asked.provider_id}: {page}", facts={"unbilled": True})
    fault = _make_status_fault(_find_status(body), {}, body, asked, answered="200 with an error in it")
    if cost:  # what was made is paid for
        del fault.facts["unbilled" if "unbilled" in fault.facts else "unknown"]
        fault.facts |= cost
    return fault


def _make_status_fault(
    status: int, headers: Mapping[str, str], body: Any, asked: AskedProvider, *, answered: str = ""
) -> GatewayError:
    """Return the fault of an answer with an error's status, or with an error that stands for it (`answered`)."""
    said = _quote_provider(body, asked)
    who = f"provider {asked.provider_id} answered {answered or status}"
    retry_after = retry_after_ms(headers, asked.now)
    facts: dict[str, Any] = {"status": status}
    facts |= {} if retry_after is None else {"retry_after_ms": retry_after}
    facts |= {"unknown": True} if status in _MAY_HAVE_WORKED else {"unbilled": True}
    words = _find_words(body)
    figures = _find_figures(words, body, asked) if _is_of_window(words) else {}
    if status != _TOO_MANY and _is_of_cap(words) and not figures:
        return GatewayError("PROVIDER_REFUSED", f"{who}: {_cap_fix(asked, words)}{said}", facts=facts)
    if status != _TOO_MANY and _is_of_window(words):
        fix, mend = "the prompt, with its answer, is longer than the window of", describe_window_mend(asked.provider_id)
        return GatewayError("CONTEXT_TOO_LONG", f"{who}: {fix} {asked.model_id}: {mend}{said}", facts=facts | figures)
    if asked.prompt is not None and asked.prompt.tools and _UNPARSED_CALL.search(_find_words(body)):
        raise CallUnparsed(f"{who}{said}")
    if status == _TOO_MANY:
        is_final = bool({_find_name(body, "code"), _find_name(body, "type")} & _FOREVER)
        fix = "its quota is used up: look at the account" if is_final else "it takes no more for now"
        return GatewayError("PROVIDER_RATE_LIMITED", f"{who}: {fix}{said}", retryable=not is_final, facts=facts)
    if status >= _LEAST_ERROR or status in _MAY_HAVE_WORKED:
        return GatewayError("PROVIDER_ERROR", f"{who}: it failed{said}", retryable=True, facts=facts)
    return GatewayError("PROVIDER_REFUSED", f"{who}: {_fix(status, asked)}{said}", facts=facts)


def _is_of_cap(words: str) -> bool:
    """Return whether the words say that the model does not take this cap of its answer."""
    return bool(_CAP_UNKNOWN.search(words) or (_CAP.search(words) and not _SUM.search(words)))


def _is_of_window(words: str) -> bool:
    """Return whether the words say that the prompt, with its answer, is longer than the model can read."""
    is_long = _CONTEXT.search(words) or (_CAP.search(words) and _SUM.search(words))
    return is_long is not None and _NOT_OF_LENGTH.search(words) is None


def _find_figures(words: str, body: Any, asked: AskedProvider) -> dict[str, int]:
    """Return the tokens of window and prompt that a refusal names; empty unless it follows from them."""
    cap, said = 0 if asked.prompt is None else asked.prompt.max_tokens, _find_error(body)
    if isinstance(said, Mapping) and "n_ctx" in said:
        words = f"{said.get('n_prompt_tokens')} > {said['n_ctx']}"
    found = [pattern.search(words) for pattern in (_WINDOW, _PROMPT, _TOTAL)]
    window, prompt, total = [int(next(filter(None, one.groups()))) if one else 0 for one in found]
    prompt = total - cap if total > cap else prompt
    return {"window": window, "prompt_tokens": prompt} if window and prompt and prompt + cap > window else {}


def _cap_fix(asked: AskedProvider, words: str) -> str:
    if _CAP_UNKNOWN.search(words):
        setting = f"gateway.providers.{asked.provider_id}.max_tokens_field"
        return f"it names the limit of an answer differently: set {setting}"
    cap = "" if asked.prompt is None else f" of {asked.prompt.max_tokens} tokens"
    contract = "the prompt contract" if asked.prompt is None else asked.prompt.contract_id
    return (
        f"{asked.model_id} does not take a cap{cap} for an answer: correct max_tokens of the request, of the profile "
        f"(gateway.profiles), or boundary.max_tokens of {contract}"
    )


def _fix(status: int, asked: AskedProvider) -> str:
    key = asked.config.key or "no key"
    match status:
        case 401:
            return f"it does not accept the key ({key}); give it a valid one"
        case 403:
            return f"the key ({key}) may not use model {asked.model_id}; choose another one, or ask for access"
        case 404:
            return f"there is no model {asked.model_id}, or nothing at {asked.config.base_url}; check both"
        case _ if 300 <= status < 400:  # noqa: PLR2004 - a redirection
            return f"it redirects, which is not followed; correct base_url {asked.config.base_url}"
        case 413:
            return "the prompt is too large for it"
        case _:
            return "it refuses this request"


def _make_unusable(cause: BadAnswer | AnswerRefused, asked: AskedProvider) -> GatewayError:
    used = cause.used if isinstance(cause, BadAnswer) else {}
    facts: dict[str, Any] = dict(used) or {"unknown": True}
    facts |= {TOO_LARGE: True} if isinstance(cause, AnswerTooLarge) else {}
    detail = f"the answer of provider {asked.provider_id} cannot be used: {cause}"
    # What broke off may come whole; what is too long, or packed, will be again.
    return GatewayError("PROVIDER_ERROR", detail, retryable=isinstance(cause, BadAnswer), facts=facts)


def _walk_chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _find_error(body: Any) -> Any:
    """Return what says what is wrong: the body itself, or an error in it, or the first of some."""
    if isinstance(body, list):
        body = body[0] if body else ""
    while isinstance(body, Mapping):
        inner = next((body[name] for name in ("error", "errors", "detail", "base_resp") if body.get(name)), None)
        inner = inner[0] if isinstance(inner, list) else inner
        if not isinstance(inner, Mapping | str):
            break
        body = inner
    return body


def _find_name(body: Any, *names: str) -> str:
    found = _find_error(body)
    values = [found.get(name) for name in names] if isinstance(found, Mapping) else []
    return next((value for value in values if isinstance(value, str) and value), "")


def _find_words(body: Any) -> str:
    """Return all that the provider says of the error: its sentence, or its name for it."""
    found = _find_error(body)
    said = found if isinstance(found, str) else _find_name(body, *SENTENCES)
    return " ".join(filter(None, (said, _find_name(body, "code"), _find_name(body, "type"))))


def _find_status(body: Any) -> int:
    """Return the status that an error would have had, had it come in the place of an answer."""
    found = _find_error(body)
    codes = [found.get(name) for name in ("code", "status", "status_code")] if isinstance(found, Mapping) else []
    numbers = [int(code) for code in codes if isinstance(code, int) or (isinstance(code, str) and code.isdecimal())]
    own = next((number for number in numbers if 400 <= number < 600), 500)  # noqa: PLR2004 - what HTTP has for errors
    return _OF_TYPES.get(_find_name(body, "type", "code"), own)


def _quote_provider(body: Any, asked: AskedProvider) -> str:
    """Return what the provider said itself, as far as it can be told on: one line without the prompt."""
    found = _find_error(body)
    text = found if isinstance(found, str) else _find_name(body, *SENTENCES, "type")
    text = "".join(char if char.isprintable() else " " for char in text[:SAID_MAX_CHARS]).strip()
    if not text or (asked.prompt is not None and _is_quoted(text, asked.prompt)):
        return ""
    return f". It says: {text}"


def _is_quoted(text: str, prompt: Prompt) -> bool:
    parts = {text[at : at + _QUOTED_CHARS] for at in range(max(1, len(text) - _QUOTED_CHARS + 1))}
    return any(len(part) >= _QUOTED_CHARS and part in message.text for message in prompt.messages for part in parts)
