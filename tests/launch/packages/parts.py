"""A small package, as its maker has it: a draft that brings one agent, what it needs, and a key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from bench.builders import shipped_snapshot
from hobus.config.files import SHIPPED_ROOT
from hobus.config.schema import GovernanceConfig
from hobus.launch.packages import signing
from hobus.launch.packages.bundle import Bundle, encode, write_manifest

LIMITS: GovernanceConfig = shipped_snapshot().config.governance
SIGNED = LIMITS.model_copy(update={"signatures": "signed"})


def agent(agent_id: str, prompt: str = "You are a clerk.") -> dict[str, Any]:
    shipped = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8"))
    return shipped | {"agent_id": agent_id, "agent_class": "RESIDENT", "system_prompt": prompt}


def manifest(package_id: str = "PKG-CLERK-001", version: str = "1.0.0", **fields: Any) -> dict[str, Any]:
    return {
        "package_id": package_id, "version": version, "schema_version": "1.2", "title": "A clerk",
        "description": "Brings one agent.", "spec_id": "SPEC-CLERK-001", "framework_id": "FMWK-200", "plane_id": "hot",
        "layer": 3, "dependencies": [], "assets": [],
    } | fields  # fmt: skip


def text(value: Any) -> bytes:
    return f"{json.dumps(value, indent=2)}\n".encode()


PACK = """[[system]]
{{ system }} You answer as a clerk does.
[[user]]
<message>
{{ user_input }}
</message>
"""


def with_contract(files: dict[str, bytes], agent_id: str = "CLERK", number: int = 200) -> dict[str, bytes]:
    """Those files, whose agent's answers are asked for under a contract and a prompt pack of the package: PRC-CLERK-001."""
    contract_id, pack_id = f"PRC-{agent_id}-001", f"PRM-{agent_id}-001"
    shipped = json.loads((SHIPPED_ROOT / "contracts/PRC-SYNTHESIZE-001.json").read_text(encoding="utf-8"))
    own = {"contract_id": contract_id, "version": "1.0.0", "prompt_pack_id": pack_id}
    brought = {f"contracts/{contract_id}.json": text(shipped | own), f"prompt_packs/{pack_id}.txt": PACK.encode()}
    who, manifest_file = f"agents/{agent_id}.json", f"frameworks/FMWK-{number}_{agent_id}/manifest.yaml"
    names = json.loads(files[who]) | {"contracts": {"synthesize": contract_id}}
    rules = json.loads(files[manifest_file])
    rules["path_authorizations"] += list(brought)
    return {**files, who: text(names), manifest_file: text(rules), **brought}


def files_of(agent_id: str = "CLERK", number: int = 200, prompt: str = "You are a clerk.") -> dict[str, bytes]:
    framework, folder, spec = f"FMWK-{number}", f"frameworks/FMWK-{number}_{agent_id}", f"SPEC-{agent_id}-001"
    rules = {
        "framework_id": framework, "title": agent_id, "version": "1.0.0", "status": "active", "ring": "resident",
        "plane_id": "hot", "created_at": "2026-11-25T00:00:00Z", "assets": ["standard.md"], "expected_specs": [spec],
        "invariants": [{
            "level": "MUST", "statement": "It is offered no tool that its permissions do not name",
            "enforced_by": ["hobus.config.consistency:find_inconsistencies"],
        }],
        "path_authorizations": [f"agents/{agent_id}.json", f"{folder}/*", f"specs/{spec}/*"],
        "required_gates": ["G0", "G1", "G5"],
    }  # fmt: skip
    fulfilled = {
        "spec_id": spec, "framework_id": framework, "title": agent_id, "version": "1.0.0",
        "assets": [f"agents/{agent_id}.json"],
    }  # fmt: skip
    return {
        f"agents/{agent_id}.json": text(agent(agent_id, prompt) | {"framework_id": framework}),
        f"{folder}/manifest.yaml": text(rules),  # JSON is YAML
        f"{folder}/standard.md": f"# {agent_id}\n".encode(),
        f"specs/{spec}/manifest.yaml": text(fulfilled),
    }


def draft(root: Path, files: dict[str, bytes] | None = None, **fields: Any) -> Path:
    """A directory laid out like config/, with a manifest and these files; else with one agent, CLERK."""
    value = manifest(**fields)
    there = files if files is not None else files_of()
    for name, data in {f"packages/{value['package_id']}/manifest.json": text(value), **there}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def key(directory: Path, name: str = "maker.key") -> Path:
    file = directory / name
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        signing.make_key(file)
    return file


def bundle(key_file: Path, files: dict[str, bytes] | None = None, **fields: Any) -> Bundle:
    """A package that was signed by hand, whatever it holds: `fields` of its manifest, with `assets` as they are."""
    there = files if files is not None else files_of()
    assets = [
        {"path": name, "sha256": f"sha256:{hashlib.sha256(data).hexdigest()}", "classification": "agent"}
        for name, data in sorted(there.items())
    ]
    wanted: dict[str, Any] = {"assets": assets} | fields
    made = write_manifest(manifest(**wanted))
    return Bundle(made, signing.sign_manifest(made, key_file).to_bytes(), there)


def file_of(target: Path, made: Bundle) -> Path:
    target.write_bytes(encode(made))
    return target


def clerk(directory: Path, version: str = "1.0.0", *, key_file: Path | None = None, **fields: Any) -> Path:
    files = files_of(prompt=f"You are a clerk, version {version}.")
    made = bundle(key_file or key(directory), files, version=version, **fields)
    return file_of(directory / f"clerk-{version}.hobus-package", made)


def other(directory: Path, agent_id: str, number: int, **fields: Any) -> Path:
    """A bundle of another package with another agent: PKG-<AGENT>-001."""
    wanted = {"package_id": f"PKG-{agent_id}-001", "spec_id": f"SPEC-{agent_id}-001", "framework_id": f"FMWK-{number}"}
    made = bundle(key(directory), files_of(agent_id, number), **(wanted | fields))
    return file_of(directory / f"{agent_id}.hobus-package", made)
