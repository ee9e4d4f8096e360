"""A package on a running cluster: used by the next turn, upgraded, removed; an old turn is still explained by its digest."""

from __future__ import annotations

import hashlib
import json

import psutil
import pytest

from bench.cluster import Cluster, cluster_in, eventually, hobus
from hobus.launch.console import exit_codes
from tests.launch.packages import parts

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tmp_path):
    """A cluster that runs, of a home in which only signed packages count."""
    made = cluster_in(tmp_path / "home")
    assert made("config set", "governance.signatures", "signed").code == exit_codes.OK
    made.up("--detach")
    yield made
    made.end()


def done(cluster: Cluster, command: str, *words: str) -> dict:
    answer = cluster(command, "--json", *words)
    assert answer.code == exit_codes.OK, answer.out + answer.err
    return answer.json


def shown(cluster: Cluster, turn: dict) -> str:
    why = cluster("why", "--json", turn["session_id"])
    assert why.code == exit_codes.OK, why.err
    return json.dumps(why.json)


def test_a_package_from_its_maker_to_its_removal(cluster, tmp_path):
    """Built, signed, installed, used, upgraded, removed, without a stop; each turn is explained by what it was made with."""
    maker = tmp_path / "maker"
    maker.mkdir()
    public = hobus("package", "key", "my.key", cwd=maker).out.strip()
    bundles: dict[str, str] = {}
    prompts = {
        one: parts.with_contract(parts.files_of(prompt=f"You are a clerk, version {one}."))
        for one in ("1.0.0", "2.0.0")
    }
    for version, files in prompts.items():
        source = parts.draft(maker / version, files, version=version)
        target = maker / f"clerk-{version}"
        words = (str(source), "--key", "my.key", "--output", str(target), "--home", str(cluster.home.root))
        built = hobus("package", "build", *words, cwd=maker)
        assert built.code == exit_codes.OK, built.err
        bundles[version] = str(target)
    assert cluster("package install", bundles["1.0.0"]).code == exit_codes.INTEGRITY, "nobody trusts its maker yet"
    assert cluster("ask", "--agent", "CLERK", "hello").code == exit_codes.USAGE
    done(cluster, "package trust add", "maker", public)
    before = [(row.actor, row.pid) for row in cluster.run().children]

    done(cluster, "package install", bundles["1.0.0"])
    first = cluster.ask("hello", "--agent", "CLERK")
    done(cluster, "package install", bundles["2.0.0"])
    second = cluster.ask("hello", "--agent", "CLERK")
    assert first["outcome"] == second["outcome"] == "success"
    done(cluster, "package remove", "PKG-CLERK-001")
    gone = cluster("ask", "--agent", "CLERK", "hello")
    assert gone.code == exit_codes.USAGE and "there are ADMIN" in gone.err
    assert cluster.ask("hello")["outcome"] == "success"

    assert [(row.actor, row.pid) for row in cluster.run().children] == before, "nobody was started again"
    sent = [json.dumps(entry, default=str) for entry in cluster.entries("PROMPT_SENT")]
    assert sum("PRC-CLERK-001" in one and "PRM-CLERK-001" in one for one in sent) == 2, "its answers, not their labels"
    assert "You answer as a clerk does" in shown(cluster, first)
    assert "version 1.0.0" in shown(cluster, first) and "version 2.0.0" not in shown(cluster, first)
    assert "version 2.0.0" in shown(cluster, second)
    assert len(cluster.entries("CONFIG_SNAPSHOT")) == 3, "without the package all is as it was at the start"
    for version in bundles:  # any version of a file that the record names, by its digest
        data = prompts[version]["agents/CLERK.json"]
        printed = cluster("asset", f"sha256:{hashlib.sha256(data).hexdigest()}", "--json")
        assert printed.json["text"].encode() == data
    assert cluster("gates", "--enforce").code == exit_codes.OK
    cluster.verify()


@pytest.mark.usefixtures("launchers_are_executed")
def test_a_cluster_with_signed_packages_starts_and_keeps_no_library_for_them(cluster, tmp_path):
    """What checks signatures is loaded by a child that ends; a start without a word for the maker is refused."""
    made = parts.bundle(parts.key(tmp_path))
    public = json.loads(made.signature)["public_key"]
    done(cluster, "package trust add", "maker", public)
    done(cluster, "package install", str(parts.file_of(tmp_path / "b", made)), "--no-reload")
    assert cluster("ask", "--agent", "CLERK", "hello").code == exit_codes.USAGE
    assert cluster("down").code == exit_codes.OK
    cluster.up("--detach")
    assert cluster.ask("hello", "--agent", "CLERK")["outcome"] == "success"
    pids = [cluster.run().launcher_pid, *(row.pid for row in cluster.run().children)]
    maps = {pid: " ".join(one.path for one in psutil.Process(pid).memory_maps()) for pid in pids}
    assert [pid for pid, text in maps.items() if "/cryptography/" in text] == []
    assert cluster("down").code == exit_codes.OK
    assert "PKG-CLERK-001" in cluster("package trust remove", "maker").err
    refused = cluster("up", "--wait")
    assert refused.code == exit_codes.INTEGRITY and "G5" in refused.err and "hobus package trust list" in refused.err


def test_an_install_behind_another_reload_waits_for_it_and_one_that_was_left_out_is_made_up_for(tmp_path):
    """Executors are started anew meanwhile; nobody has to know of the other command, or of `hobus reload`."""
    cluster = cluster_in(tmp_path / "home")
    cluster.up("--detach")
    try:
        assert cluster("config set", "tools.children_max", "3").code == exit_codes.OK
        first = cluster.begin("reload")
        eventually(lambda: cluster.run().reload is not None)
        installed = cluster("package install", str(parts.clerk(tmp_path)))
        assert installed.code == exit_codes.OK and "the running cluster loaded it" in installed.out, installed.err
        assert cluster.ask("hello", "--agent", "CLERK")["outcome"] == "success"
        first.communicate(timeout=60)
        other = str(parts.other(tmp_path, "BAKER", 300))
        assert "does not know it yet" in cluster("package install", other, "--no-reload").out
        unknown = cluster("ask", "--agent", "BAKER", "hello")
        assert unknown.code == exit_codes.USAGE and "hobus reload" in unknown.err
        assert "the running cluster loaded it" in cluster("package install", other).out
        assert cluster.ask("hello", "--agent", "BAKER")["outcome"] == "success"
    finally:
        cluster.end()
