"""A supervisor asks for a file: who reads it, under whose permissions, and what comes back over the bus."""

import json
from dataclasses import replace

import pytest

from bench.builders import SESSION, shipped_snapshot, tool_order
from hobus.actors.ho1_executor.file_reads import FileReads
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.catalog import find_row
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import READ_FILE_MAX_BYTES
from hobus.bus.messages.files import AT_HOME, FileText, ReadFile
from hobus.launch.cluster.home import is_home
from tests.actors.ho1_executor.rig import cluster

HERE = FileReads((), is_home)


def _snapshot(*paths):
    shipped = shipped_snapshot()
    agent = shipped.agents["ADMIN"]
    allowed = agent.permissions.model_copy(update={"paths": tuple(map(str, paths))})
    return replace(shipped, agents={"ADMIN": agent.model_copy(update={"permissions": allowed})})


def _asked(snapshot, path, *, agent_id="ADMIN", digest=None, files=HERE, max_bytes=10_000):
    """What a supervisor gets."""
    with cluster(None, executors=0) as made:
        made.snapshot = snapshot
        made.executor(files)
        return made.world.run(
            made.ho2.request(
                "ho1",
                ReadFile(
                    agent_id=agent_id,
                    config_digest=digest or snapshot.digest,
                    path=str(path),
                    max_bytes=max_bytes,
                ),
                expect=FileText,
                timeout_s=5,
                key=AT_HOME,
            )
        )


def test_a_file_below_the_agent_s_roots_comes_back(tmp_path):
    (tmp_path / "note.txt").write_text("a note")
    found = _asked(_snapshot(tmp_path), "note.txt")
    assert (found.text, found.refused, found.size_bytes) == ("a note", "", 6)
    assert FileText.from_bytes(found.to_bytes()) == found
    assert _asked(_snapshot(tmp_path), "note.txt", max_bytes=3).text == "a n"
    (tmp_path / "note.txt").write_text("a" * (READ_FILE_MAX_BYTES + 1))
    assert len(_asked(_snapshot(tmp_path), "note.txt", max_bytes=10**9).text) == READ_FILE_MAX_BYTES


@pytest.mark.parametrize("agent_id", ["ADMIN", "NOBODY"])
def test_without_permission_nothing_is_read(tmp_path, agent_id):
    (tmp_path / "note.txt").write_text("a note")
    roots = () if agent_id == "ADMIN" else (tmp_path,)
    found = _asked(_snapshot(*roots), tmp_path / "note.txt", agent_id=agent_id)
    assert found.refused == "not_permitted" and "permissions.paths" in found.warning and not found.text


def test_a_worker_elsewhere_reads_nothing(tmp_path):
    """It is not asked, since it does not announce the key's tool; were it asked, it would refuse."""
    (tmp_path / "note.txt").write_text("a note")
    assert _asked(_snapshot(tmp_path), "note.txt", files=None).refused == "not_permitted"
    row = find_row("ho1", ReadFile.TYPE)
    assert row is not None and row.by_tool and row.senders == {"ho2"} and row.mode == "immediate"
    assert BUILTIN[AT_HOME].needs_home  # which workers elsewhere are made without


def test_the_permissions_are_those_of_the_configuration_that_is_named(tmp_path):
    with pytest.raises(RuntimeFault) as refused:
        _asked(_snapshot(tmp_path), "note.txt", digest="sha256:" + "0" * 64)
    assert refused.value.code == "execution_error"


@pytest.mark.parametrize("agent_id", ["ADMIN", "NOBODY"])
def test_a_tool_reads_as_the_agent_of_its_call(tmp_path, agent_id):
    """Whatever the tool says: a tool of a package has the same way out."""
    (tmp_path / "note.txt").write_text("a note")

    async def greedy(_arguments, host):
        body = {"agent_id": agent_id, "config_digest": "x", "path": "note.txt", "max_bytes": 99}
        return (await host.request("ho1", "file.read", body))["text"]

    with cluster(None, executors=0) as made:
        made.snapshot = _snapshot(tmp_path)
        made.tools = {**BUILTIN, "list_packages": replace(BUILTIN["list_packages"], run=greedy)}
        made.executor(HERE)
        texts = []
        for number, (tool_id, given) in enumerate((("list_packages", {}), ("read_file", {"path": "note.txt"})), 1):
            order = tool_order(tool_id, given, wo_id=f"WO-{SESSION}-1.1.1.{number:03d}")
            order = order.model_copy(update={"config_digest": made.snapshot.digest})
            receipt = made.world.run(made.execute(order))
            assert receipt.output_result is not None, receipt.error
            texts.append(json.loads(receipt.output_result.text.text))
        refused = tool_order("read_file", {"path": "/etc/passwd"}, wo_id=f"WO-{SESSION}-1.1.1.009")
        refused = refused.model_copy(update={"config_digest": made.snapshot.digest})
        error = made.world.run(made.execute(refused)).error
    assert texts[0] == "a note" and (texts[1]["text"], texts[1]["is_cut"]) == ("a note", False)
    assert error is not None and error.code == "tool_failed" and "permissions.paths" in error.message
