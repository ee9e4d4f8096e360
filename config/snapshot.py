"""The frozen configuration of a cluster: everything governed, in one value with one digest.

The launcher freezes one snapshot and records its bytes as the body of CONFIG_SNAPSHOT:<digest>; every hello and work
order carries the digest, and an order is executed under the snapshot that it names.
Secrets are never in it, only references.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import canonical_bytes, unpack
from hobus.config.assets import Agent, Contract, Framework, Package, Spec
from hobus.config.attention_template import Template
from hobus.config.files import SHIPPED_ALONE, Layers
from hobus.config.load import Further, Governed, Reading, read
from hobus.config.prompt_pack import parse_pack
from hobus.config.schema import AdminConfig

_MAPPINGS = ("agents", "contracts", "prompt_packs", "templates", "frameworks", "specs", "packages")


@dataclass(frozen=True)
class Snapshot:
    """Equal by digest. Mappings are read-only, in order of their ids; `origins` is no part of the digest."""

    digest: str
    """`sha256:<64 hex>` of the canonical bytes."""
    config: AdminConfig = field(compare=False)
    agents: Mapping[str, Agent] = field(compare=False)
    contracts: Mapping[str, Contract] = field(compare=False)
    prompt_packs: Mapping[str, str] = field(compare=False)
    templates: Mapping[str, Template] = field(compare=False)
    frameworks: Mapping[str, Framework] = field(compare=False)
    specs: Mapping[str, Spec] = field(compare=False)
    packages: Mapping[str, Package] = field(compare=False)
    origins: Mapping[str, str] = field(compare=False)
    """File -> `shipped`, its package's id or the home's own path; empty for a snapshot that came as bytes."""

    def output_schemas(self) -> dict[str, dict[str, Any]]:
        """Contract id -> what its answers are judged by, and nothing else of the contract."""
        return {
            contract.contract_id: contract.output_schema
            for contract in self.contracts.values()
            if contract.output_schema is not None
        }

    def pack_texts(self) -> dict[str, tuple[str, ...]]:
        """Prompt pack id -> the texts that stand in it between its inputs, as the record numbers them."""
        return {pack_id: parse_pack(pack_id, text).texts for pack_id, text in self.prompt_packs.items()}

    def template_hashes(self) -> dict[str, bytes]:
        """Attention template id -> SHA-256 of its canonical bytes: what a turn's record names it by."""
        return {name: hashlib.sha256(canonical_bytes(template)).digest() for name, template in self.templates.items()}

    def agent_packages(self) -> dict[str, str]:
        """Agent id -> the package that owns it, for agents that one owns: those of a home alone have none."""
        owners = {asset.path: name for name, package in self.packages.items() for asset in package.assets}
        found = {agent_id: owners.get(f"agents/{agent_id}.json", "") for agent_id in self.agents}
        return {agent_id: package_id for agent_id, package_id in found.items() if package_id}

    def to_bytes(self) -> bytes:
        """The canonical bytes: same content, same bytes."""
        mappings = {name: dict(getattr(self, name)) for name in _MAPPINGS}
        return canonical_bytes(Governed(config=self.config, **mappings))

    def listening(self, section: Literal["bus", "http"], address: str) -> Snapshot:
        """The snapshot with another `bus.listen` or `http.listen`, `HOST:PORT`, under its own digest."""
        governed = Governed.model_validate(unpack(self.to_bytes()))
        listening = getattr(governed.config, section).model_copy(update={"listen": address})
        config = governed.config.model_copy(update={section: listening})
        return _frozen(governed.model_copy(update={"config": config}), self.origins)

    @staticmethod
    def from_bytes(data: bytes) -> Snapshot:
        """The snapshot behind `to_bytes`; raises ConfigError for anything else."""
        try:
            governed = Governed.model_validate(unpack(data))
        except ValueError as error:
            raise ConfigError(f"not a snapshot of this version ({type(error).__name__}); restart the cluster") from None
        if canonical_bytes(governed) != data:
            raise ConfigError(
                "not the canonical bytes of a snapshot; fetch the body of its CONFIG_SNAPSHOT entry again"
            )
        return _frozen(governed, {})


def load_snapshot(layers: Layers = SHIPPED_ALONE, *, further: Further = lambda _config: []) -> Snapshot:
    """The snapshot of everything governed in these layers; an admin_config.json is laid over the shipped one.

    Raises ConfigError with every fault at once, those that `further` finds among the settings, too.
    """
    return frozen(read(layers, further=further))


def frozen(reading: Reading) -> Snapshot:
    """The snapshot of what was read. Raises ConfigError as `load_snapshot`."""
    return _frozen(*reading.governed())


def _frozen(governed: Governed, origins: Mapping[str, str]) -> Snapshot:
    mappings = {name: _read_only(getattr(governed, name)) for name in _MAPPINGS}
    digest = digest_of(canonical_bytes(governed))
    return Snapshot(digest=digest, config=governed.config, origins=_read_only(origins), **mappings)


def digest_of(data: bytes) -> str:
    """`sha256:<64 hex>` of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(sorted(values.items())))
