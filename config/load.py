"""Reads every governed file and checks it. There is no default for anything in code.

All faults of single files are told at once; where there is none, all those of files held against each other.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from hobus.bus.errors import ConfigError
from hobus.bus.messages.base import pack
from hobus.config import files, mcp_block
from hobus.config.assets import AgentFile, Asset, Contract, FileInForce, Framework, Package, Spec
from hobus.config.attention_template import Template
from hobus.config.file_limits import Limits, explain_too_long, explain_too_many, get_file_max_bytes, read_limits
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ALONE, GovernedFile, Kind, Layers
from hobus.config.in_force import map_in_force
from hobus.config.parse import BYTE_ORDER_MARK, BadText, check_model, parse_json
from hobus.config.prompt_pack import parse_pack
from hobus.config.schema import AdminConfig

_MODELS: dict[Kind, tuple[type[Asset], str]] = {
    "agent": (AgentFile, "agent_id"),
    "contract": (Contract, "contract_id"),
    "template": (Template, "template_id"),
    "framework": (Framework, "framework_id"),
    "spec": (Spec, "spec_id"),
    "package": (Package, "package_id"),
}
"""Kind -> its model and the field that names it."""


_ASSETS_KEPT, _SETTINGS_KEPT = 256, 8
"""Texts whose meaning is remembered: several times what is shipped, and the settings before and after a change."""


class Governed(BaseModel):
    """Everything governed, checked, each mapping in order of its ids: what a snapshot holds and its digest covers."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    config: AdminConfig
    agents: dict[str, AgentFile]
    contracts: dict[str, Contract]
    prompt_packs: dict[str, str]
    templates: dict[str, Template]
    frameworks: dict[str, Framework]
    specs: dict[str, Spec]
    packages: dict[str, Package]
    files: dict[str, FileInForce]

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: same content, same bytes.

        Assets stand by their ids, and what is in them as written: models answer in the order of a schema's fields.
        """
        dumped = self.model_dump(mode="json")
        return pack({name: of if name == "config" else dict(sorted(of.items())) for name, of in dumped.items()})


Further = Callable[[AdminConfig], list[str]]
"""What else is checked of the settings: faults that begin with a dotted path, as all others."""


@dataclass(frozen=True)
class ReadLayers:
    """What lies in these layers, as far as it is sound, and every fault of it."""

    files: Mapping[str, GovernedFile]
    """By name, as they are in force."""
    config: AdminConfig | None
    """None where nothing sound is left of the settings."""
    assets: Mapping[Kind, Mapping[str, Any]]
    """Kind -> id -> model, of all kinds that have one."""
    prompt_packs: Mapping[str, str]
    faults: tuple[str, ...]
    """In words: file, dotted path, what is wrong, the fix."""
    of_place: int
    """So many of them, the first ones, are of files that may not lie where they do."""
    beneath: tuple[GovernedFile, ...] = ()
    """What is not in force and was loaded: the shipped settings, where others are laid over them."""

    def governed(self) -> Governed:
        """Return all of it. Raises ConfigError that lists every fault."""
        return self._governed

    @cached_property
    def _governed(self) -> Governed:
        """Build it once: the snapshot is frozen from it, and the gates ask whether it can be."""
        if self.faults or self.config is None:
            raise _make_error(list(self.faults))
        by_kind: dict[str, Mapping[str, Any]] = {**self.assets, "prompt_pack": self.prompt_packs}
        mappings = {f"{kind}s": dict(sorted(one.items())) for kind, one in by_kind.items()}
        governed = Governed(config=self.config, files=map_in_force(self.files, mappings["packages"]), **mappings)
        size_bytes = len(governed.to_bytes()) + len(self.contents())
        if faults := _import_consistency().find_snapshot_faults(self.config, size_bytes):
            raise _make_error([_place_fault(fault, self.files) for fault in faults])
        return governed

    def contents(self) -> bytes:
        """Return the bytes of every file, by name, as they stand in the record beside their snapshot."""
        return pack({name: file.content for name, file in self.files.items()})


def _import_consistency() -> Any:
    """Import on demand: whoever reads the settings alone, or a judged snapshot, needs none of the rules."""
    return importlib.import_module("hobus.config.consistency")


def read_settings(layers: Layers) -> AdminConfig:
    """Return the settings as `read` has them, from these layers' `config_file` or as shipped: nothing else is read.

    Raises ConfigError with every fault of that file.
    """
    shipped = GovernedFile(ADMIN_CONFIG, "config", files.SHIPPED_ROOT / ADMIN_CONFIG, files.SHIPPED)
    own = layers.config_file
    file = shipped if own is None else GovernedFile(ADMIN_CONFIG, "config", own, files.OWN)
    faults: list[str] = []
    config = _read_admin_config(file, shipped, faults)[0]
    if config is None:
        raise _make_error(faults)
    return config


def read(layers: Layers = SHIPPED_ALONE, *, further: Further = lambda _config: []) -> ReadLayers:
    """Read everything governed in these layers, with every fault of a file; where there is none, those between files.

    Of these are those of `further`. An admin_config.json of one's own is laid over the shipped one (`config.merge`).
    """
    found, faults = files.find(layers)
    of_place = len(faults)
    written = found[ADMIN_CONFIG]
    shipped = GovernedFile(ADMIN_CONFIG, "config", files.SHIPPED_ROOT / ADMIN_CONFIG, files.SHIPPED)
    beneath = () if written.is_shipped else (shipped,)
    config, pasted = _read_admin_config(written, shipped, faults)
    limits = read_limits(config)
    assets: dict[Kind, dict[str, Any]] = {kind: {} for kind in _MODELS}
    prompt_packs: dict[str, str] = {}
    for file in found.values():
        if file.kind in _MODELS:
            _read_asset(file, assets[file.kind], faults, limits)
        elif file.kind == "prompt_pack":
            _read_pack(file, prompt_packs, faults, limits)
        elif file.kind == "standard":
            _read(file, faults, limits)
    if config is not None and not faults:
        told: list[str] = _import_consistency().find_inconsistencies(
            config, assets["agent"], assets["contract"], prompt_packs, assets["framework"]
        )
        told += importlib.import_module("hobus.config.attention_faults").find_attention_faults(
            config, assets["template"], assets["agent"], assets["contract"], assets["framework"]
        )
        told += further(config)
        faults += [_place_fault(mcp_block.place_as_written(fault, pasted), found) for fault in told]
    return ReadLayers(found, config, assets, prompt_packs, tuple(faults), of_place, beneath)


def _place_fault(fault: str, found: Mapping[str, GovernedFile]) -> str:
    """Return the fault with the file in which to fix it; of a setting that is as shipped that is unknown."""
    name, colon, rest = fault.partition(": ")
    if colon and name in found:
        return f"{found[name].path}: {rest}"
    return fault if found[ADMIN_CONFIG].is_shipped else f"{found[ADMIN_CONFIG].path}: {fault}"


def _make_error(faults: list[str]) -> ConfigError:
    lines = "\n".join(f"- {fault}" for fault in faults)
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return ConfigError(f"configuration has {count}:\n{lines}", facts={"faults": list(faults)})


def _read(file: GovernedFile, faults: list[str], limits: Limits) -> str | None:
    try:
        if said := explain_too_long(file.path.stat().st_size, limits.bytes_max):
            faults.append(f"{file.path}: {said}")
            return None
        return file.content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        faults.append(f"{file.path}: byte {error.start} is not UTF-8; save the file as UTF-8")
    except OSError as error:
        faults.append(f"{file.path}: cannot be read: {error.strerror}; make it readable for this user, or move it")
    return None


def _read_value(file: GovernedFile, text: str, faults: list[str], limits: Limits) -> dict[str, Any] | None:
    """Return the file's value; None with a fault if it has none."""
    try:
        return _parse_value(text, is_yaml=file.path.suffix == ".yaml", entries_max=limits.entries_max)
    except BadText as error:
        faults.append(f"{file.path}: {error}")
        return None


def _parse_value(text: str, *, is_yaml: bool, entries_max: int | None) -> dict[str, Any]:
    """Parse the text. Raises BadText."""
    # By name: the many processes that read no file of this form need not load its library.
    of_yaml = importlib.import_module("hobus.config.yaml_text").parse_yaml if is_yaml else None
    value: Any = parse_json(text) if of_yaml is None else of_yaml(text, entries_max)
    if said := explain_too_many(value, entries_max):
        raise BadText(said)
    if not isinstance(value, dict):
        raise BadText(f"holds {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _read_admin_config(
    file: GovernedFile, shipped_file: GovernedFile, faults: list[str]
) -> tuple[AdminConfig | None, tuple[str, ...]]:
    """Return the settings, laid over the shipped ones, and the names of the MCP servers that came in a pasted block."""
    limits = Limits(None if file.is_shipped else get_file_max_bytes(), None)
    text = _read(file, faults, limits)
    shipped_text = None if file.is_shipped else shipped_file.content.decode()
    if text is None:
        return None, ()
    if (sound := _read_sound_settings(text, shipped_text, is_yaml=file.path.suffix == ".yaml")) is not None:
        return sound
    value = _read_value(file, text, faults, limits)
    if value is None:
        return None, ()
    written = value
    if shipped_text is not None:
        value = merge(parse_json(shipped_text), value)
    block = mcp_block.expand(value)
    config, found = check_model(AdminConfig, block.settings, written=written, strict=True)
    found = [mcp_block.place_as_written(fault, block.names) for fault in found]
    faults.extend(f"{file.path}: {fault}" for fault in (*block.faults, *found))
    return config, block.names


@lru_cache(maxsize=_SETTINGS_KEPT)
def _read_sound_settings(
    text: str, shipped_text: str | None, *, is_yaml: bool
) -> tuple[AdminConfig, tuple[str, ...]] | None:
    """Return the settings that this text is when laid over the shipped ones; None where anything is wrong with them."""
    try:
        value = _parse_value(text, is_yaml=is_yaml, entries_max=None)
    except BadText:
        return None
    block = mcp_block.expand(value if shipped_text is None else merge(parse_json(shipped_text), value))
    config = check_model(AdminConfig, block.settings, strict=True)[0]
    return None if config is None or block.faults else (config, block.names)


def _read_pack(file: GovernedFile, into: dict[str, str], faults: list[str], limits: Limits) -> None:
    pack_id, text = file.path.stem, _read(file, faults, limits)
    if text is None:
        return
    into[pack_id] = text
    if text.startswith("\ufeff"):
        faults.append(f"{file.path}: {BYTE_ORDER_MARK}")
        return
    try:
        parse_pack(pack_id, text)
    except ConfigError as fault:
        faults.append(f"{file.path}: {fault.detail}")


def _read_asset(file: GovernedFile, into: dict[str, Any], faults: list[str], limits: Limits) -> None:
    id_field = _MODELS[file.kind][1]
    text = _read(file, faults, limits)
    place = file.path.stem if file.path.name != f"manifest{file.path.suffix}" else file.path.parent.name
    named = place.partition("_")[0] if file.kind == "framework" else place
    asset: Asset | None = None
    if text is not None:
        asset = _read_sound_asset(file.kind, text, is_yaml=file.path.suffix == ".yaml", entries_max=limits.entries_max)
        if asset is None:
            _tell_faults(file, text, faults, limits)
    if asset is None:
        return
    asset_id: str = getattr(asset, id_field)
    if asset_id != named:
        faults.append(f"{file.path}: {id_field}: is {asset_id!r}, but the file is named for {named!r}; make them equal")
    elif asset_id in into:
        faults.append(f"{file.path}: {id_field}: {asset_id!r} is defined by another file too; remove one of them")
    else:
        into[asset_id] = asset


@lru_cache(maxsize=_ASSETS_KEPT)
def _read_sound_asset(kind: Kind, text: str, *, is_yaml: bool, entries_max: int | None) -> Asset | None:
    """Return the asset that this text is; None where anything is wrong with it.

    Frozen, so that all who read the same text share it: a process that judges packages, or takes in a change, reads
    most files again as they were.
    """
    try:
        value = _parse_value(text, is_yaml=is_yaml, entries_max=entries_max)
    except BadText:
        return None
    return check_model(_MODELS[kind][0], value)[0]


def _tell_faults(file: GovernedFile, text: str, faults: list[str], limits: Limits) -> None:
    """Add why a file has no sound asset."""
    value = _read_value(file, text, faults, limits)
    if value is None:
        return
    model, id_field = _MODELS[file.kind]
    _, found = check_model(model, value)
    if fault := _lower_case_fault(value.get(id_field), id_field):
        found = [fault, *(one for one in found if not one.startswith(f"{id_field}: "))]
    faults.extend(f"{file.path}: {fault}" for fault in found)


def _lower_case_fault(name: Any, id_field: str) -> str:
    """Return why an agent cannot be called that, where capitals would do; empty if that is not the fault."""
    if id_field != "agent_id" or not isinstance(name, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name) is None:
        return ""
    if name == name.upper():
        return ""
    return f"{id_field}: {name!r} is not in capitals; write {name.upper()!r}, and name the file {name.upper()}.json"


_MARKS = ("kind", "transport")
"""Settings that say which settings stand beside them: another one there makes another object."""


def merge(shipped: Any, own: Any) -> Any:
    """Return `own` wherever it says something, else `shipped`: objects key by key at every depth, all else whole.

    So a file may hold only what differs, and adds a provider, a route or a server by its name. A key that nobody knows
    stays, and is refused with its path. `null` is a value: it stands for whatever was shipped there.
    """
    if not (isinstance(shipped, dict) and isinstance(own, dict)):
        return own
    if any(mark in own and mark in shipped and own[mark] != shipped[mark] for mark in _MARKS):
        return own
    return shipped | {key: merge(shipped.get(key), value) for key, value in own.items()}
