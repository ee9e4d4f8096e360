"""`hobus package`: bundles of governed files, made and signed, installed and removed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hobus.config.files import ADMIN_CONFIG
from hobus.config.parse import FRAMEWORK_ID, VERSION, WORDS
from hobus.launch.app.packaged import draft
from hobus.launch.app.started import import_agents, list_changed_files
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cli.commands.package_change import change_package, list_agents
from hobus.launch.cli.commands.package_trust import DEV, trust_
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import UsageFault, format_next_command, format_next_here
from hobus.launch.console.output import (
    escape_line,
    format_count,
    note,
    note_coloured,
    say,
    say_prose,
    shorten_path,
    style,
)
from hobus.launch.console.view import Columns, print_rows
from hobus.launch.packages import building, installing, signing, trust
from hobus.launch.packages.installing import Installed, map_installed
from hobus.launch.packages.judging import read_config

_FILE = click.Path(path_type=Path)


@click.group(cls=Family)
def package() -> None:
    """Build, sign, install and remove packages of governed files.

    A package is one signed file with an agent and its prompt packs, contracts, attention templates, framework and spec.
    It never replaces an existing file, and holds neither settings nor code.

    \b
    Its maker:   hobus package key my.key                    once; hand on the public key that it prints
                 hobus package build clerk/ --key my.key     makes PKG-CLERK-001-1.0.0.hobus-package
    Its user:    hobus package trust add maker ed25519:…     once; counts where governance.signatures is "signed"
                 hobus package install FILE                  or its higher version; then: hobus ask --agent CLERK
                 hobus package remove PKG-CLERK-001

    Exit codes: 1 installed, but the running cluster did not load it; 2 no bundle or no such package; 3 a gate or
    signature fails; 5 something needs it, or another command is running. A refusal changes nothing. More:
    docs/governance.md, section Packages.
    """  # noqa: D301 - click's mark for rows that stay as they are


def _check_version(_ctx: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not re.fullmatch(VERSION, given):
        raise UsageFault(f"--version {given[:40]!r}: expected three numbers without leading zeros, as 1.0.0")
    return given


def _check_framework(_ctx: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not re.fullmatch(FRAMEWORK_ID, given):
        raise UsageFault(f"--framework {given[:40]!r}: expected {WORDS[FRAMEWORK_ID]}")
    return given


@package.command()
@click.argument("source", metavar="DIR|APP", type=_FILE)
@click.option("--key", "key_file", metavar="FILE", type=_FILE, required=True, help="Private key to sign with.")
@click.option("--output", metavar="FILE", type=_FILE, help="The bundle.  [PKG-ID-VERSION.hobus-package, here]")
@click.option(
    "--version", callback=_check_version, default="1.0.0", show_default=True, help="Version of an APP's package."
)
@click.option(
    "--framework",
    callback=_check_framework,
    default="FMWK-200",
    show_default=True,
    help="Framework of an APP's package.",
)
@with_json
def build(  # noqa: PLR0913 - one per option
    *, home: Home, source: Path, key_file: Path, output: Path | None, version: str, framework: str
) -> Output:
    """Build a signed bundle of DIR, a directory like config/, or of the agents of APP.

    DIR/packages/PKG-…/manifest.json is a draft; this command adds files and hashes. The gates check the package as if
    installed in this home. The package of APP, a Python file, contains its agents without tools and providers; its
    description lists those that a home needs.
    """
    with tempfile.TemporaryDirectory() as directory:
        needs, changed = "", None
        if source.suffix == ".py":
            root = Path(directory, source.name)
            needs = draft(root, source, agents := import_agents(source), version=version, framework_id=framework)
            source = root
            changed = list_changed_files(home, agents).get(ADMIN_CONFIG)
        made = building.build(home, source, key_file, output, settings=changed)
    manifest = made.incoming.package
    key = made.incoming.signature.public_key
    files = sorted(made.incoming.bundle.files)
    document = {
        "file": str(made.path), "package_id": manifest.package_id, "version": manifest.version,
        "size_bytes": made.size_bytes, "manifest_sha256": made.incoming.bundle.manifest_sha256,
        "public_key": key, "fingerprint": signing.compute_fingerprint(key), "files": files,
        "left_out": list(made.left_out),
    }  # fmt: skip

    def show() -> None:
        held = f"{format_count(len(files), 'file')}, {made.size_bytes:,} bytes"
        say(style("built", "green"), f"  {shorten_path(made.path)}: {manifest.package_id} {manifest.version}, {held}")
        if made.left_out:
            say(f"left out, since its name begins with a dot: {', '.join(map(escape_line, made.left_out))}")
        if needs:
            say_prose("", f"it brings no code: where it is to be installed, admin_config.json needs {needs}")
        say(f"signed by {document['fingerprint']}; {format_next_here(f'package install {made.path}')}")

    return Output(document, show)


@package.command()
@click.argument("file", metavar="FILE", type=_FILE)
@with_json
def key(*, home: Home, file: Path) -> Output:
    """Make a key to sign packages: write the private key to FILE, print the public key.

    FILE is a PEM file with mode 0600. Keep a copy: without it you cannot sign upgrades. Give the public key to users,
    who trust it by `hobus package trust add NAME KEY`.
    """
    del home  # a key is its maker's, and no home's
    public = signing.make_key(file)
    document = {"file": str(file), "public_key": public, "fingerprint": signing.compute_fingerprint(public)}

    def show() -> None:
        say(public)
        note(f"{signing.compute_fingerprint(public)}, its private half in {shorten_path(file)} (mode 0600)")

    return Output(document, show)


_no_reload = click.option("--no-reload", is_flag=True, help="Do not reload a running cluster.")


@package.command()
@click.argument("file", metavar="FILE", type=_FILE)
@_no_reload
@with_json
def install(*, home: Home, file: Path, no_reload: bool) -> Output:
    """Install the package in FILE, or a higher version, if every gate passes.

    A running cluster loads it at once: new turns use it, running ones end as they began.
    """
    return change_package(home, installing.install(home, file), "installed", no_reload=no_reload)


@package.command()
@click.argument("package_id", metavar="ID")
@_no_reload
@with_json
def remove(*, home: Home, package_id: str, no_reload: bool) -> Output:
    """Remove the package ID, unless another package or a setting needs it.

    Older turns stay readable: the record holds their files.
    """
    return change_package(home, installing.remove(home, package_id), "removed", no_reload=no_reload)


@package.command("list")
@with_json
def list_(*, home: Home) -> Output:
    """List the installed packages with their signers and agents."""
    policy = read_config(home).governance
    keys = trust.read_trusted(home)
    there = map_installed(home).values()
    rows = [_make_row(one, keys) for one in there]
    for row, one in zip(rows, there, strict=True):
        fault = trust.find_signature_fault(one.directory, one.package_id, keys, policy)
        # Under `dev` no gate asks whether the signature holds; who made the package is then not known all the same.
        unsigned = "" if one.public_key else "signature.json: it is not the signature of its manifest"
        row["fault"] = fault or unsigned

    def show() -> None:
        columns: Columns = {
            "PACKAGE": "package_id", "VERSION": "version", "SIGNED BY": "signer", "AGENTS": "agents",
            "STATE": lambda row: row["fault"] or "ok",
        }  # fmt: skip
        print_rows(rows, columns, empty="no package is installed")
        if any(row["fault"] for row in rows):
            note(f"next: {format_next_command('gates', home.root)} shows every fault with its mend")
        if policy.signatures == "dev":
            note_coloured(DEV, "yellow")

    return Output({"packages": rows, "signatures": policy.signatures}, show)


def _make_row(one: Installed, keys: Mapping[str, str]) -> dict[str, Any]:
    name = next((name for name, known in keys.items() if known == one.public_key), "")
    print_ = signing.compute_fingerprint(one.public_key) if one.public_key else ""
    return {
        "package_id": one.package_id, "version": one.version,
        "title": "" if one.package is None else one.package.title,
        "signer": f"{name} ({print_})" if name else print_ or "nobody", "fingerprint": print_, "trusted_as": name,
        "agents": list_agents(one), "files": one.files, "directory": str(one.directory),
    }  # fmt: skip


package.add_command(trust_)
