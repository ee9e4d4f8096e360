"""Secrets stand in the configuration by reference only: `env:NAME` or `file:PATH`; what is shown never holds one. Pure.

References are told apart and hidden here, never resolved. Who needs one resolves it, in its own process, when it needs
it: the gateway a provider's, the process of an MCP server that server's. Which variables of an environment somebody
gets, by name, is said here, too; `launch.given` reads the environment itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Annotated, Any, cast
from urllib.parse import parse_qsl

from pydantic import AfterValidator

HIDDEN = "(hidden)"

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\s\x00][^\x00\n]*")
_SECRET_KEY = re.compile(
    r"((^|[_-])(key|secret|pass|passphrase|token|credential|credentials|authorization|cookie)|apikey|password|passwd)([_-]ref)?$",
    re.IGNORECASE,
)

_SECRET_VALUE = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:sk-|sk_|rk_live_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|hf_|xox[abeprs]-|pypi-|npm_)[A-Za-z0-9_-]{16}
    | (?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}
    | (?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30}
    | [A-Za-z0-9_-]{10}\.eyJ[A-Za-z0-9_-]{10,}\.    # a JWT, from within its head: tries of the whole are quadratic
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | (?<![A-Za-z])[Bb]earer\ +\S{8}
    | ^[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s:@]+@
    """,
    re.VERBOSE,
)


def is_secret_ref(text: str) -> bool:
    """Return whether the text is `env:NAME` or `file:PATH`."""
    return _REFERENCE.fullmatch(text) is not None


def is_secret_name(name: str) -> bool:
    """Return whether a name (of a setting, a variable, a header) says that its value is a secret."""
    return _SECRET_KEY.search(name) is not None


def _check_id(name: str) -> str:
    """Return what settings are named by an id. Raises ValueError for one by which all of them would be hidden."""
    if is_secret_name(name):
        raise ValueError(
            "a name that ends like that of a secret (key, token, …) would hide its settings: choose another"
        )
    return name


Id = Annotated[str, AfterValidator(_check_id)]


def looks_secret(value: str) -> bool:
    """Return whether a value is, or holds, a key by its form, as well-known services make them, whatever its name."""
    return _SECRET_VALUE.search(value) is not None


def secret_in_query(url: str) -> bool:
    """Return whether something in an address's query is named for a secret: `https://h/?token=…`."""
    return "?" in url and any(is_secret_name(key) for key, _ in parse_qsl(url.partition("?")[2]))


def secret_argument(arguments: Sequence[str]) -> bool:
    """Return whether an argument is a secret by its form, or as in `--password VALUE` and `--api-key=VALUE`."""
    return bool(_find_secret_arguments(arguments))


def _find_secret_arguments(arguments: Sequence[str]) -> set[int]:
    """Return the positions of arguments that are a secret, or hold one."""
    found: set[int] = set()
    for number, (word, following) in enumerate(zip_longest(arguments, arguments[1:], fillvalue="")):
        name, _, value = word.partition("=")
        # `--key` names a file more often than it holds a key; one that is a key is known by its form.
        is_named = name.startswith("-") and name != "--key" and is_secret_name(name.lstrip("-"))
        if looks_secret(word) or (is_named and value):
            found.add(number)
        elif is_named and following and not following.startswith("-"):
            found.add(number + 1)
    return found


def redact(value: Any, *, is_secret: bool = False) -> Any:
    """Return a copy of a JSON-like value in which no secret is left.

    Text under a key that is named for a secret is hidden unless it is a reference; so is everything nested below such a
    key, of which `is_secret` says that this is. Whatever its key, text is hidden that is a secret by its form, an
    address with one, and an argument of a program. Numbers stay: a `session_token_limit` is a budget.
    """
    if isinstance(value, Mapping):
        return {key: redact(item, is_secret=is_secret or is_secret_name(str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        words = [item if isinstance(item, str) else "" for item in value]
        secret = _find_secret_arguments(words)
        return [redact(item, is_secret=is_secret or number in secret) for number, item in enumerate(value)]
    if not isinstance(value, str) or is_secret_ref(value):
        return value
    return HIDDEN if is_secret or looks_secret(value) or secret_in_query(value) else value


def select_allowed(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names match one of these (shell patterns)."""
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, pattern) for pattern in names)}


def list_referred(value: Any) -> Iterator[str]:
    """Yield names of the variables to which `env:NAME` references in a JSON-like value lead, at any depth."""
    return _list_of_kind("env:", value)


def list_file_refs(value: Any) -> Iterator[str]:
    """Yield paths of the files to which `file:PATH` references in the value lead."""
    return _list_of_kind("file:", value)


def _list_of_kind(kind: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith(kind) and is_secret_ref(value):
            yield value.removeprefix(kind)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _list_of_kind(kind, item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _list_of_kind(kind, item)
