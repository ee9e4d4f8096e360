"""A directory laid out like config/ becomes a signed bundle: its manifest is a draft, and gets its list of files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.files import Layers
from hobus.config.load import merge
from hobus.config.parse import BadText, parse_json
from hobus.launch import limits
from hobus.launch.cluster import own_config
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers, find_package
from hobus.launch.console.errors import UsageFault, make_os_fault
from hobus.launch.packages.bundle import (
    SCHEMA_VERSION,
    SUFFIX,
    Bundle,
    encode,
    has_no_place,
    name_manifest,
    write_manifest,
)
from hobus.launch.packages.incoming import Incoming, check_incoming
from hobus.launch.packages.judging import PackageRefused, find_clashes, judge_layers
from hobus.launch.packages.signing import sign_manifest, write_new

_CLASSES: Mapping[files.Kind, str] = {
    "agent": "agent", "contract": "contract", "prompt_pack": "prompt_pack", "template": "template",
    "framework": "framework", "standard": "doc", "spec": "framework",
}  # fmt: skip
"""Kind of a file -> what a manifest says of it where its draft says nothing."""
_FILE_MAX_BYTES = limits.PACKAGE_FILE_MAX_BYTES


class BuiltPackage(NamedTuple):
    """A bundle that was written."""

    path: Path
    incoming: Incoming
    size_bytes: int
    left_out: Sequence[str]
    """Names below the directory that begin with a dot."""


def build(
    home: Home, source: Path, key_file: Path, target: Path | None, *, settings: own_config.Settings | None = None
) -> BuiltPackage:
    """Write the package below `source`, signed with this key, to a new file; `source` stays as it is.

    It is judged as in this home, with these settings if any, beside what is installed there. Raises CommandError: there
    is no file.
    """
    manifest, contents, hidden = draft_package(source)
    bundle = Bundle(manifest, sign_manifest(manifest, key_file).to_bytes(), contents)
    data = encode(bundle)
    # Whoever gets it reads it by the same rules.
    incoming = check_incoming(str(source), data, mend="mend the draft, then build it again")
    package = incoming.package
    _demand_passed(home, incoming, own_config.read(home) if settings is None else settings)
    path = target or Path(f"{package.package_id}-{package.version}{SUFFIX}")
    _write_new(path, data)
    return BuiltPackage(path, incoming, len(data), hidden)


def draft_package(source: Path) -> tuple[bytes, dict[str, bytes], list[str]]:
    """Return the manifest with every file and its hash, the files, and the names that are hidden and stay out.

    Raises UsageFault with every fault of the directory.
    """
    contents, hidden = _read_all(source)
    manifests = [name for name in contents if files.find_kind(name) == "package"]
    if len(manifests) != 1:
        found = f"{len(manifests)} of them" if manifests else "none"
        raise UsageFault(
            f"{source}: a package has one manifest, packages/PKG-…/manifest.json; here is {found}",
            hint="write a draft: all of a manifest but the hashes (docs/governance.md, section Packages)",
        )
    draft = _draft(source / manifests[0], contents.pop(manifests[0]))
    if manifests[0] != name_manifest(str(draft.get("package_id"))):
        raise UsageFault(
            f"{source / manifests[0]}: package_id: is {str(draft.get('package_id'))[:80]!r}, but its directory is "
            f"{manifests[0].split('/')[1]!r}; make them equal"
        )
    listed = _read_listed(source / manifests[0], draft)
    if missing := sorted(listed.keys() - contents.keys()):
        raise UsageFault(f"{source / missing[0]}: the draft lists it, and it is not there; add it, or take it off")
    assets = [
        {
            "path": name,
            "sha256": compute_digest(data),
            "classification": listed.get(name) or _CLASSES[cast("files.Kind", files.find_kind(name))],
        }
        for name, data in sorted(contents.items())
    ]
    whole = {"schema_version": SCHEMA_VERSION, "dependencies": [], **draft, "assets": assets}
    try:
        return write_manifest(whole), contents, hidden
    except UnicodeEncodeError:
        raise UsageFault(f"{source / manifests[0]}: holds half of a character (\\ud800 and the like)") from None


def _draft(path: Path, data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data.decode())
    except (BadText, UnicodeDecodeError) as error:
        raise UsageFault(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise UsageFault(f"{path}: holds {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _read_listed(path: Path, draft: Mapping[str, Any]) -> dict[str, str]:
    assets = draft.get("assets", [])
    try:
        return {str(one["path"]): str(one.get("classification", "")) for one in assets}
    except (TypeError, LookupError, AttributeError):
        raise UsageFault(f"{path}: assets: a list of objects with a path, or left out") from None


def _read_all(source: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return every visible file by name, each a plain one in a place of governed files, within the limits.

    And what is hidden: what editors, file systems and version control leave.
    """
    if not source.is_dir():
        raise UsageFault(f"{source}: not a directory", hint="name a directory like config/")
    names, found = files.list_visible(source), dict[str, bytes]()
    if len(names) > limits.FILES_MAX:
        raise UsageFault(f"{source}: more than {limits.FILES_MAX} files")
    faults = files.find_unread(source)
    for name in names:
        kind, fault = files.find_kind(name), ""
        if (source / name).is_symlink():
            fault = "a link; put the file itself here"
        elif kind == "config":
            fault = "a package holds no settings; say in its description which ones it needs"
        elif kind not in (None, "package") and has_no_place(name):
            fault = "no file of a package has such a name: of A-Z, a-z, 0-9 and `._-`, not too long; rename it"
        try:
            found[name] = b"" if fault or kind is None else files.read_plain_file(source / name, _FILE_MAX_BYTES)
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        faults += [f"{source / name}: {fault}"] if fault else []
    if faults:
        raise UsageFault("\n".join(faults))
    return found, files.list_hidden(source)


def _demand_passed(home: Home, incoming: Incoming, settings: own_config.Settings) -> None:
    """Raise PackageRefused for a package that no home with these settings would take."""
    package_id = incoming.package.package_id
    there = find_layers(home)
    others = [path for path in there.packages if find_package(path) != package_id]
    with tempfile.TemporaryDirectory(prefix="hobus-package-") as directory:
        staged, given = Path(directory, "package"), Path(directory, files.ADMIN_CONFIG)
        write_tree(staged, incoming.files)
        # Who answers where nobody is named may be an agent of the home's own files, and is no matter of the package.
        answers = own_config.read_shipped()["host"]["agent_id"]
        own_config.put(given, merge(settings, {"host": {"agent_id": answers}}))
        taken = find_clashes(Layers(tuple(others), None, given), package_id, incoming.bundle.files)
        # The files that its maker has in the home may be the very ones that go into the package.
        judgement = judge_layers(
            home,
            Layers((*others, staged), None, given),
            called={staged: package_id, given: str(own_config.make_path(home))},
            maker=incoming.signature.public_key,
        )
    taken = [one._replace(mend="give yours another name") for one in taken]
    if failures := [*taken, *judgement.list_failures_behind(taken, package_id)]:
        raise PackageRefused(f"{package_id} {incoming.package.version} cannot be built", failures)


def write_tree(root: Path, contents: Mapping[str, bytes]) -> None:
    """Write these files below `root`, for a moment. Raises CommandError."""
    try:
        for name, data in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise make_os_fault(error, doing="the package cannot be looked at") from error


def _write_new(path: Path, data: bytes) -> None:
    try:
        write_new(path, data, mode=0o644)
    except FileExistsError:
        hint = "name another one: --output FILE"
        raise UsageFault(f"{path} is there already: nothing is overwritten", hint=hint) from None
    except OSError as error:
        raise make_os_fault(error, doing="the bundle cannot be written, and was not") from error
