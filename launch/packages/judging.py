"""What the gates say of a home as it would be with other packages in force; they look, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hobus.bus.errors import ConfigError
from hobus.config import files
from hobus.config.files import Layers
from hobus.config.gates.finding import Finding, list_failed, list_lines
from hobus.config.gates.layer import Layer
from hobus.config.gates.run import look, run_gates
from hobus.config.load import read_settings
from hobus.config.schema import AdminConfig, GovernanceConfig
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, format_next_here
from hobus.launch.console.output import format_count
from hobus.launch.packages.trust import find_signature_fault, read_trusted


class LayerJudgement(NamedTuple):
    """The judgement of one set of layers."""

    findings: Sequence[Finding]

    @property
    def failures(self) -> list[Finding]:
        return list_failed(list(self.findings))

    @property
    def warnings(self) -> list[Finding]:
        return [one for one in self.findings if one.severity == "warn"]

    def list_failures_behind(self, clashes: Sequence[Finding], package_id: str) -> list[Finding]:
        """Return failures that are not told already by these clashes of the package's names, nor follow from them.

        Where the package takes another one's file, gates hold its files against that one, too.
        """
        named = {one.file for one in clashes}
        rest = [one for one in self.failures if one.file not in named]
        return [one for one in rest if not clashes or one.file.partition("/")[0] == package_id]

    def list_failures_beside(self, other: LayerJudgement) -> list[Finding]:
        """Return failures that the other one has not: what a change would bring, not what it finds.

        What fails in another file is another failure. So a package has one name in both (`judged`, `called`).
        """
        there = {(one.gate, one.file, one.reason) for one in other.failures}
        return [one for one in self.failures if (one.gate, one.file, one.reason) not in there]


def verify_of(keys: Mapping[str, str], policy: GovernanceConfig) -> Callable[[Layer], str]:
    """Return gate G5's question about an installed package's layer: why its signature does not hold, or nothing."""

    def verify(layer: Layer) -> str:
        manifests = {name: held for name, held in layer.held.items() if files.find_kind(name) == "package"}
        if len(manifests) != 1:
            return ""  # it is no package at all, which gate G0 says
        ((name, held),) = manifests.items()
        read = None if held.fault else held.content
        return find_signature_fault(layer.root, name.split("/")[1], keys, policy, manifest=read)

    return verify


def read_config(home: Home) -> AdminConfig:
    """Return the settings of this home, else the shipped ones. Raises UsageFault where they are at fault."""
    own = home.config / files.ADMIN_CONFIG
    try:
        return read_settings(Layers(config_file=own if own.is_file() else None))
    except ConfigError:
        return _require_sound(None)


def _require_sound(config: AdminConfig | None) -> AdminConfig:
    """Return the settings. Raises UsageFault for none: by the shipped ones it would be more than this home trusts."""
    if config is None:
        said = "the settings are at fault, so nobody knows whose packages this home takes"
        raise UsageFault(said, hint=format_next_here("config check"))
    return config


_TRUST = "have its maker's key from the maker, then: hobus package trust add NAME KEY"


def judge_layers(
    home: Home, layers: Layers, *, called: Mapping[Path, str] | None = None, maker: str = ""
) -> LayerJudgement:
    """Judge these layers by all gates but that of the record, and by the keys that this home trusts.

    `called`: what a directory that nobody knows yet is called in what is said; `maker`: a key that is trusted for once.
    Raises CommandError, ConfigError.
    """
    view = look(layers)
    config = _require_sound(view.reading.config)
    found = run_gates(view, has_tests=False, verify=verify_of({**read_trusted(home), "": maker}, config.governance))
    for path, name in (called or {}).items():
        found = [_name_candidate(one, path, name) for one in found]
    return LayerJudgement(found)


def _name_candidate(one: Finding, path: Path, name: str) -> Finding:
    is_untrusted = one.gate == "G5" and one.file == str(path)
    return one._replace(
        file=one.file.replace(str(path), name),
        reason=one.reason.replace(str(path), name),
        mend=_TRUST if is_untrusted else one.mend,
    )


def find_clashes(layers: Layers, package_id: str, names: Collection[str]) -> list[Finding]:
    """Return each file that the package would bring and somebody else has: nobody's is ever replaced by a package."""
    there, _faults = files.find(layers)
    return [
        Finding(
            "G0", f"{package_id}/{name}",
            f"{_get_owner(there[name].layer)} has a file of this name ({there[name].origin})"
            if there[name].layer == files.OWN else f"{_get_owner(there[name].layer)} has a file of this name",
            "to use the package's, move yours away" if there[name].layer == files.OWN
            else "ask its maker to give it another name",
        )
        for name in sorted(names)
        if name in there
    ]  # fmt: skip


def _get_owner(layer: str) -> str:
    return {files.OWN: "this home", files.SHIPPED: "hobus itself"}.get(layer, layer)


class PackageRefused(CommandError):
    """Nothing was changed; exit code 3."""

    exit_code = exit_codes.INTEGRITY

    def __init__(self, what: str, findings: Sequence[Finding], hint: str = "") -> None:
        told = "\n".join(f"- {line}" for line in list_lines(findings))
        message = f"{what}: {format_count(len(findings), 'gate failure')}, and nothing was changed\n{told}"
        super().__init__(message, hint=hint, code="gate_failed")
        self.findings = tuple(findings)
