"""A key comes from an environment variable or a private file, and from nothing else; no fault repeats it."""

from __future__ import annotations

import os

import pytest

from hobus.bus.errors import GatewayError
from hobus.gateway_service.providers.keys import read_key

KEY = "sk-planted-8f2b6c1d9e"


def private(tmp_path, data: bytes, mode: int = 0o600):
    """A key file."""
    path = tmp_path / "key"
    path.write_bytes(data)
    path.chmod(mode)
    return path


def refusal(reference: str, given: dict[str, str] | None = None) -> str:
    """Why there is no key."""
    with pytest.raises(GatewayError) as caught:
        read_key("mine", reference, given or {})
    assert caught.value.code == "PROVIDER_UNUSABLE" and not caught.value.retryable
    assert KEY not in caught.value.detail and "provider mine cannot be used: " in caught.value.detail
    return caught.value.detail


@pytest.mark.parametrize("data", [KEY, f"{KEY}\n", f"{KEY}\r\n"])
@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_holds_a_key_with_or_without_the_newline_of_an_editor(tmp_path, data, mode):
    """The key is what stands there, and nothing around it."""
    assert read_key("mine", f"file:{private(tmp_path, data.encode(), mode)}", {}) == KEY


def test_a_variable_that_was_given_is_a_key_and_no_reference_is_none():
    """Only what was given counts, whatever this process's own environment holds."""
    assert read_key("mine", "env:A", {"A": KEY}) == KEY
    assert read_key("mine", None, {"A": KEY}) == ""
    assert "environment variable PATH is not set" in refusal("env:PATH")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_can_read_is_refused_with_the_fix(tmp_path, mode):
    """The mode is told, and the command that fixes it."""
    path = private(tmp_path, KEY.encode(), mode)
    said = refusal(f"file:{path}")
    assert f"mode {mode:04o}" in said and f"chmod 600 {path}" in said


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "is empty"), (b"\n", "is empty"), (f"{KEY} {KEY}".encode(), "holds a blank"),
     (f"{KEY}\n{KEY}\n".encode(), "a second line"), (f"{KEY}\n\n".encode(), "a second line"),
     (f"\ufeff{KEY}".encode(), "letter that no key has"), (b"\x00", "letter that no key has"), (b"k" * 9000, "more than")],
)  # fmt: skip
def test_a_file_that_holds_no_key_or_more_than_one_is_refused(tmp_path, data, why):
    """What would make a broken header, or send something else, is a mistake and told as one."""
    assert why in refusal(f"file:{private(tmp_path, data)}")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    """A pipe without a writer does not hold the gateway up; a directory and nothing at all are told."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "not a regular file" in refusal(f"file:{pipe}")
    assert "not a regular file" in refusal(f"file:{tmp_path}")
    assert "No such file" in refusal(f"file:{tmp_path / 'nothing'}")
    assert "cannot be read" in refusal("file:/a\x00b")
    assert "no such user" in refusal("file:~nobody_here/key")
