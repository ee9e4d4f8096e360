"""The frozen configuration of a cluster: everything governed, in one value with one digest.

The launcher freezes one snapshot and records its bytes as the body of CONFIG_SNAPSHOT:<digest>, those of the files that
it was made from beside it; every hello and work order carries the digest, and an order is executed under the snapshot
that it names. The digest of each file stands in the snapshot, so whoever names the snapshot names them all.
Secrets are never in it, only references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import compute_digest, pack, unpack
from hobus.bus.messages.session import ModelChoice, SessionConfig
from hobus.bus.messages.work_order import CLASSIFICATION, CONSOLIDATION
from hobus.bus.record.entry import Provenance
from hobus.config.assets import AgentFile, Contract, ContractPurpose, FileInForce, Framework, Package, Spec
from hobus.config.attention_template import Template
from hobus.config.files import SHIPPED_ALONE, Layers
from hobus.config.load import Governed, ReadLayers, read
from hobus.config.model_choice import choose_model
from hobus.config.prompt_contracts import get_contract_id
from hobus.config.prompt_pack import parse_pack
from hobus.config.registries import Manifests
from hobus.config.schema import AdminConfig

_TAGS: Mapping[ContractPurpose, str] = {"classify": CLASSIFICATION, "consolidate": CONSOLIDATION}
_MAPPINGS = ("agents", "contracts", "prompt_packs", "templates", "frameworks", "specs", "packages", "files")


@dataclass(frozen=True)
class Snapshot:
    """A frozen configuration, equal by digest. Mappings are read-only, sorted by id; `origins` is not digested."""

    digest: str
    """`sha256:<64 hex>` of the canonical bytes."""
    config: AdminConfig = field(compare=False)
    agents: Mapping[str, AgentFile] = field(compare=False)
    contracts: Mapping[str, Contract] = field(compare=False)
    prompt_packs: Mapping[str, str] = field(compare=False)
    templates: Mapping[str, Template] = field(compare=False)
    frameworks: Mapping[str, Framework] = field(compare=False)
    specs: Mapping[str, Spec] = field(compare=False)
    packages: Mapping[str, Package] = field(compare=False)
    files: Mapping[str, FileInForce] = field(compare=False)
    """File -> its version and owner."""
    origins: Mapping[str, str] = field(compare=False)
    """File -> `shipped`, its package's id or the home's own path; empty for a snapshot that came as bytes."""
    contents: bytes = field(compare=False, repr=False)
    """The files themselves, as `read_contents` reads them; empty for a snapshot that came as bytes."""

    @property
    def manifests(self) -> Manifests:
        return Manifests(self.frameworks, self.specs, self.packages, self.files)

    def map_output_schemas(self) -> dict[str, dict[str, Any]]:
        """Map contract id to what its answers are judged by, and nothing else of the contract."""
        return {
            contract.contract_id: contract.output_schema
            for contract in self.contracts.values()
            if contract.output_schema is not None
        }

    def pack_texts(self) -> dict[str, tuple[str, ...]]:
        """Map prompt pack id to the texts that stand in it between its inputs, as the record numbers them."""
        return {pack_id: parse_pack(pack_id, text).texts for pack_id, text in self.prompt_packs.items()}

    def map_template_hashes(self) -> dict[str, bytes]:
        """Map attention template id to SHA-256 of its file: what a turn's record names it by."""
        versions = {name: self.files.get(f"attention/{name}.json") for name in self.templates}
        return {name: bytes.fromhex(one.sha256.partition(":")[2]) for name, one in versions.items() if one is not None}

    def map_agent_packages(self) -> dict[str, str]:
        """Map agent id to the package that owns it: `PKG-HOME` owns those that a home has of its own."""
        files = {agent_id: self.files.get(f"agents/{agent_id}.json") for agent_id in self.agents}
        return {agent_id: file.package_id for agent_id, file in files.items() if file is not None and file.package_id}

    def map_agent_provenance(self) -> dict[str, Provenance]:
        """Map agent id to what every entry about it says: class, framework, and the package that owns it."""
        packages = self.map_agent_packages()
        return {
            agent_id: Provenance(agent_id, agent.agent_class, agent.framework_id, packages.get(agent_id, ""))
            for agent_id, agent in self.agents.items()
        }

    def choose_model_for(
        self,
        agent: AgentFile | None,
        purpose: ContractPurpose,
        *,
        request: SessionConfig | None = None,
        session: SessionConfig | None = None,
    ) -> ModelChoice:
        """Return the model of this agent's prompts for a purpose; None: an agent that was removed."""
        contract = None if agent is None else self.contracts.get(get_contract_id(agent, purpose))
        tag = _TAGS.get(purpose, "")
        return choose_model(self.config.gateway, agent, contract, request=request, session=session, tag=tag)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: same content, same bytes."""
        mappings = {name: dict(getattr(self, name)) for name in _MAPPINGS}
        return Governed(config=self.config, **mappings).to_bytes()

    def with_contents(self) -> bytes:
        """Return the canonical bytes with the files behind them, for whoever is to record both."""
        return pack([self.to_bytes(), self.contents])

    @staticmethod
    def from_both(data: bytes) -> Snapshot:
        """Return the snapshot behind `with_contents`; raises ConfigError for anything else."""
        try:
            both = unpack(data)
        except ValueError:
            both = None
        match both:
            case [bytes(snapshot), bytes(contents)]:
                return replace(Snapshot.from_bytes(snapshot), contents=contents)
            case _:
                raise ConfigError("not a snapshot with its files")

    def listening(self, section: Literal["bus", "http"], address: str) -> Snapshot:
        """Return the snapshot with another `bus.listen` or `http.listen`, `HOST:PORT`, under its own digest."""
        governed = Governed.model_validate(unpack(self.to_bytes()))
        listening = getattr(governed.config, section).model_copy(update={"listen": address})
        config = governed.config.model_copy(update={section: listening})
        changed = _freeze(governed.model_copy(update={"config": config}))
        return replace(changed, origins=self.origins, contents=self.contents)

    @staticmethod
    def from_bytes(data: bytes) -> Snapshot:
        """Return the snapshot behind `to_bytes`; raises ConfigError for anything else."""
        try:
            governed = Governed.model_validate(unpack(data))
        except ValueError as error:
            raise ConfigError(f"not a snapshot of this version ({type(error).__name__}); restart the cluster") from None
        if governed.to_bytes() != data:
            raise ConfigError(
                "not the canonical bytes of a snapshot; fetch the body of its CONFIG_SNAPSHOT entry again"
            )
        return _freeze(governed)


def load_snapshot(layers: Layers = SHIPPED_ALONE) -> Snapshot:
    """Return the snapshot of everything governed in these layers; an admin_config.json is laid over the shipped one.

    Raises ConfigError with every fault at once.
    """
    return freeze(read(layers))


def freeze(reading: ReadLayers) -> Snapshot:
    """Return the snapshot of what was read. Raises ConfigError as `load_snapshot`."""
    origins = _read_only({name: file.origin for name, file in reading.files.items()})
    return replace(_freeze(reading.governed()), origins=origins, contents=reading.contents())


def _freeze(governed: Governed) -> Snapshot:
    mappings = {name: _read_only(getattr(governed, name)) for name in _MAPPINGS}
    digest = compute_digest(governed.to_bytes())
    return Snapshot(digest=digest, config=governed.config, origins=_read_only({}), contents=b"", **mappings)


def _read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(sorted(values.items())))
