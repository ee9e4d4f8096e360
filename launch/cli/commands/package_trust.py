"""`hobus package trust`: whose packages are believed."""

from __future__ import annotations

import click

from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import format_next_here
from hobus.launch.console.output import note_coloured, print_table, say, style
from hobus.launch.packages import signing, trust
from hobus.launch.packages.installing import map_installed
from hobus.launch.packages.judging import read_config

DEV = "the key of a package need not be trusted here (governance.signatures: dev)"


@click.group("trust", cls=Family)
def trust_() -> None:
    """Manage the keys whose packages are trusted.

    They count if governance.signatures is "signed": hobus config set governance.signatures signed.
    """


@trust_.command()
@click.argument("name")
@click.argument("public_key", metavar="KEY")
@with_json
def add(*, home: Home, name: str, public_key: str) -> Output:
    """Trust KEY, a maker's public key, under NAME.

    KEY is what `hobus package key` printed. Get it from the maker, not from the place of the bundle.
    """
    trust.trust(home, name, public_key)
    document = {"name": name, "public_key": public_key, "fingerprint": signing.compute_fingerprint(public_key)}

    def show() -> None:
        say(style("trusted", "green"), f"  {signing.compute_fingerprint(public_key)} as {name}")
        if read_config(home).governance.signatures == "dev":
            note_coloured(DEV, "yellow")

    return Output(document, show)


@trust_.command("list")
@with_json
def list_trusted(*, home: Home) -> Output:
    """List the trusted keys."""
    rows = [
        {"name": name, "fingerprint": signing.compute_fingerprint(public), "public_key": public}
        for name, public in trust.read_trusted(home).items()
    ]
    cells = [(row["name"], row["fingerprint"], row["public_key"]) for row in rows]
    return Output(
        {"keys": rows},
        lambda: print_table(("NAME", "FINGERPRINT", "KEY"), cells, empty="no key is trusted", spare=["KEY"]),
    )


@trust_.command("remove")
@click.argument("name")
@with_json
def remove_trusted(*, home: Home, name: str) -> Output:
    """Stop trusting the key NAME. If signatures count, its packages then fail gate G5."""
    gone = trust.distrust(home, name)
    hit = [one.package_id for one in map_installed(home).values() if one.public_key == gone]
    document = {"name": name, "fingerprint": signing.compute_fingerprint(gone), "packages": hit}

    def show() -> None:
        say(style("removed", "green"), f"  {signing.compute_fingerprint(gone)}, which was {name}")
        if hit:
            said = f"{', '.join(hit)}: gate G5 fails where governance.signatures is signed"
            note_coloured(f"{said}; {format_next_here(f'package remove {hit[0]}')}", "yellow")

    return Output(document, show)
