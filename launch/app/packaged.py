"""A program's agents as the directory that a package is built of, under a framework and a spec of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hobus.bus.messages.ids import format_iso
from hobus.bus.tool import parse_entry_point
from hobus.config.files import ADMIN_CONFIG
from hobus.launch.app.agent import Agent
from hobus.launch.app.started import make_documents
from hobus.launch.console.output import as_json
from hobus.launch.packages.building import write_tree


def draft(root: Path, app: Path, agents: Sequence[Agent], *, version: str, framework_id: str) -> str:
    """Write the agents below `root`, laid out like config/; return what a home needs besides. Raises CommandError.

    A package brings neither code nor settings.
    """
    files = make_documents(agents)
    settings = files.pop(ADMIN_CONFIG)
    name = re.sub("[^A-Z0-9]+", "-", agents[0].agent_id).strip("-")
    package_id, spec_id, folder = f"PKG-{name}-001", f"SPEC-{name}-001", f"frameworks/{framework_id}_{name}"
    entries = [parse_entry_point(one) for one in settings["tools"]["entry_points"]]
    said = {
        "tools.entry_points": [f"{tool} = /path/to/{Path(target).name}" for tool, target in entries],
        "tools.approval": settings["tools"]["approval"],
        "gateway.providers": [*settings["providers"]],
    }
    needs = "; ".join(f"{path}: {', '.join(values)}" for path, values in said.items() if values)
    about = {"framework_id": framework_id, "title": name, "version": version}
    plane = {"plane_id": "hot"}
    rules = about | plane | {
        "status": "active", "ring": "resident", "created_at": f"{format_iso(app.stat().st_mtime)[:19]}Z",
        "assets": ["standard.md"], "expected_specs": [spec_id], "required_gates": ["G0", "G1", "G5"],
        "path_authorizations": [*files, f"{folder}/*", f"specs/{spec_id}/*"],
        "invariants": [{
            "level": "MUST", "statement": "It is offered no tool that its permissions do not name",
            "enforced_by": ["hobus.config.consistency:find_inconsistencies"],
        }],
    }  # fmt: skip
    described = f"Brings {', '.join(settings['agents'])} of {app.name}."
    described += f" Its home needs, in admin_config.json: {needs}" if needs else ""
    manifest = about | plane | {"package_id": package_id, "spec_id": spec_id, "layer": 3, "description": described}
    made: dict[str, Any] = {name: one | {"framework_id": framework_id} for name, one in files.items()}
    made |= {
        f"{folder}/manifest.yaml": rules,  # JSON is YAML
        f"specs/{spec_id}/manifest.yaml": about | {"spec_id": spec_id, "assets": [*files]},
        f"packages/{package_id}/manifest.json": manifest,
    }
    texts = {path: as_json(one, indent=2) for path, one in made.items()} | {f"{folder}/standard.md": f"# {name}"}
    write_tree(root, {path: f"{text}\n".encode() for path, text in texts.items()})
    return needs
