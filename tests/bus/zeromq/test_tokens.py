"""Tokens: made for one incarnation, compared by hash, private on disk, gone with their process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hobus.bus.envelope import HEADER_VERSION
from hobus.bus.errors import ConfigError
from hobus.bus.messages.control import Hello
from hobus.bus.zeromq.tokens import TokenDirectory, mint, refuses_a_stranger, revoke


def hello(token, instance="ho1/1@a", role="ho1"):
    return Hello(instance=instance, token=token, role=role, slots=1, version="", protocol=HEADER_VERSION)


def test_the_minted_secret_is_let_in_and_nothing_else(tmp_path):
    tokens = TokenDirectory(tmp_path)
    secret = mint(tmp_path, "ho1/1@a", "ho1", None)
    other = mint(tmp_path, "ho2/1@a", "ho2", None)
    assert tokens.authenticate(hello(secret)) is None
    assert tokens.authenticate(hello("")).code == "bad_token"
    assert tokens.authenticate(hello(other)).code == "bad_token"
    assert tokens.authenticate(hello(secret, "ho1/2@a")).code == "bad_token"
    assert tokens.authenticate(hello(secret, role="ho2")).code == "role_mismatch"
    assert tokens.authenticate(hello(secret, "ho1/../../x@a")).code == "malformed"


def test_nothing_on_disk_gives_the_secret_back_and_nobody_else_can_look(tmp_path):
    secret = mint(tmp_path, "ho1/1@a", "ho1", os.getpid())
    folder = tmp_path / "tokens"
    (path,) = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret not in path.read_text()
    assert json.loads(path.read_text())["instance"] == "ho1/1@a"


def test_a_revoked_token_is_refused_and_revoking_twice_is_harmless(tmp_path):
    secret = mint(tmp_path, "ho1/1@a", "ho1", None)
    revoke(tmp_path, "ho1/1@a")
    revoke(tmp_path, "ho1/1@a")
    refused = TokenDirectory(tmp_path).authenticate(hello(secret))
    assert refused.code == "bad_token"
    assert "launcher" in refused.detail


def test_a_newer_incarnation_of_a_name_ends_the_older_ones_token(tmp_path):
    old, neighbour = mint(tmp_path, "ho1/1@a", "ho1", None), mint(tmp_path, "ho1/11@a", "ho1", None)
    new = mint(tmp_path, "ho1/1@b", "ho1", None)
    tokens = TokenDirectory(tmp_path)
    assert tokens.authenticate(hello(old)).code == "bad_token"
    assert tokens.authenticate(hello(new, "ho1/1@b")) is None
    assert tokens.authenticate(hello(neighbour, "ho1/11@a")) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"hash": 1}', b"[" * 100_000])
def test_an_unreadable_token_file_is_a_refusal(tmp_path, content):
    secret = mint(tmp_path, "ho1/1@a", "ho1", None)
    (path,) = (tmp_path / "tokens").iterdir()
    path.write_bytes(content)
    assert TokenDirectory(tmp_path).authenticate(hello(secret)).code == "bad_token"


@pytest.mark.parametrize(("instance", "role"), [("ho1/1@a", "ho2"), ("../x", "ho1"), ("ho1/1", "ho1")])
def test_no_token_is_made_for_what_is_no_instance_of_the_role(tmp_path, instance, role):
    with pytest.raises(ConfigError):
        mint(tmp_path, instance, role, None)
    assert not (tmp_path / "tokens").exists() or not list((tmp_path / "tokens").iterdir())


@pytest.mark.process
def test_a_token_dies_with_its_process(tmp_path):
    """Made for a pid, it is valid while that very process lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        secret = mint(tmp_path, "ho1/1@a", "ho1", child.pid)
        tokens = TokenDirectory(tmp_path)
        assert tokens.authenticate(hello(secret)) is None
        child.kill()
    assert tokens.authenticate(hello(secret)).code == "bad_token"


def test_who_lives_is_known_by_the_tokens(tmp_path):
    for name, pid in (("ho1/1@a", os.getpid()), ("ho1/2@a", None), ("ho1/3@a", os.getpid())):
        mint(tmp_path, name, "ho1", pid)
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    mint(tmp_path, "ho1/4@a", "ho1", dead.pid)
    dead.wait()
    revoke(tmp_path, "ho1/3@a")
    (tmp_path / "tokens" / "ho1+5@a.json").write_text("{")
    assert TokenDirectory(tmp_path).living() == ["ho1/1@a", "ho1/2@a"]
    assert TokenDirectory(tmp_path / "nowhere").living() == []


def test_a_server_that_would_let_anybody_in_is_found_out(tmp_path):
    """The start-up self-test: a random token must be refused."""
    assert refuses_a_stranger(TokenDirectory(tmp_path).authenticate)
    assert not refuses_a_stranger(lambda _hello: None)
