"""Whose packages are believed where `governance.signatures` is `signed`: public keys by names that people gave them.

<home>/packages/trusted.json   {"format": 1, "keys": {"<name>": "ed25519:<64 hex>", …}}
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hobus.config.file_limits import get_file_max_bytes
from hobus.config.files import SIGNATURE, read_plain_file
from hobus.config.parse import BadText, parse_json
from hobus.config.schema import GovernanceConfig
from hobus.launch import limits
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import DIRECTORY, HEX
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.console.output import as_json
from hobus.launch.packages.bundle import name_manifest
from hobus.launch.packages.signing import (
    PUBLIC_KEY,
    BadSignature,
    check_signature,
    compute_fingerprint,
    read_stated_signature,
)
from hobus.launch.packages.store import open_store, tell_refusal_as

_FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def make_path(home: Home) -> Path:
    return home.packages / "trusted.json"


def read_trusted(home: Home) -> dict[str, str]:
    """Map name to public key, in order of the names. Raises UsageFault for a damaged file: nobody is believed then."""
    path = make_path(home)
    try:
        value = parse_json(read_plain_file(path, get_file_max_bytes()).decode())
    except FileNotFoundError:
        return {}
    except (BadText, UnicodeDecodeError) as error:
        raise _make_damaged(path, str(error)) from None
    except OSError as error:
        raise _make_damaged(path, f"cannot be read: {error.strerror}") from None
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    keys = fields.get("keys")
    if fields.get("format") != _FORMAT or set(fields) != {"format", "keys"} or not isinstance(keys, dict):
        raise _make_damaged(path, f"not a list of keys in format {_FORMAT}")
    found = cast("dict[str, Any]", keys)
    for name, key in found.items():
        if NAME.fullmatch(name) is None or not isinstance(key, str) or PUBLIC_KEY.fullmatch(key) is None:
            raise _make_damaged(path, f"{name[:64]!r} is no name with a key")
    return dict(sorted(found.items()))


def write_keys(keys: Mapping[str, str]) -> bytes:
    return f"{as_json({'format': _FORMAT, 'keys': dict(sorted(keys.items()))}, indent=1)}\n".encode()


def with_key(keys: Mapping[str, str], name: str, key: str) -> dict[str, str]:
    """Return these keys and one more. Raises UsageFault."""
    if NAME.fullmatch(name) is None:
        raise UsageFault(f"{name[:64]!r}: up to 64 of A-Z, a-z, 0-9 and `._@-`, the first one a letter or digit")
    if PUBLIC_KEY.fullmatch(key) is None:
        raise UsageFault(
            f"{key[:80]!r} is no public key: `ed25519:` and 64 hex digits in lower case, as hobus package key FILE "
            "prints it"
        )
    if keys.get(name, key) != key:
        raise UsageFault(
            f"{name} has another key here: {compute_fingerprint(keys[name])}",
            hint=f"choose another name, or remove that one: {format_next_here(f'package trust remove {name}')}",
        )
    if other := next((one for one, known in keys.items() if known == key and one != name), None):
        raise UsageFault(f"{compute_fingerprint(key)} is trusted already, as {other}")
    if len({*keys, name}) > limits.TRUSTED_MAX:
        raise UsageFault(f"{limits.TRUSTED_MAX} keys are trusted already")
    return {**keys, name: key}


def trust(home: Home, name: str, key: str) -> None:
    """Trust the key from now on. Raises CommandError: then nothing is changed."""
    with_key(read_trusted(home), name, key)  # here, too: what is refused makes nothing
    with open_store(home) as store, tell_refusal_as("the key cannot be kept"):
        store.keep_trusted(make_path(home).name, write_keys(with_key(read_trusted(home), name, key)))


def distrust(home: Home, name: str) -> str:
    """Trust the key of this name no longer, and return it. Raises CommandError: then nothing is changed."""
    _require_named(name, read_trusted(home))
    with open_store(home) as store, tell_refusal_as("the key cannot be taken away"):
        keys = read_trusted(home)
        gone = _require_named(name, keys)
        store.keep_trusted(make_path(home).name, write_keys({one: key for one, key in keys.items() if one != name}))
    return gone


def _require_named(name: str, keys: Mapping[str, str]) -> str:
    if name not in keys:
        raise UsageFault(f"no key is trusted as {name[:64]!r}", hint=format_next_here("package trust list"))
    return keys[name]


def explain_untrusted(public_key: str, keys: Mapping[str, str], policy: GovernanceConfig) -> str:
    """Return why a package with this key's signature is not believed; empty if it is."""
    if policy.signatures == "dev" or public_key in keys.values():
        return ""
    return f"{compute_fingerprint(public_key)} signed it, which is no key of `hobus package trust list`"


def find_signature_fault(
    root: Path, package_id: str, keys: Mapping[str, str], policy: GovernanceConfig, *, manifest: bytes | None = None
) -> str:
    """Return why the package in this directory is not believed; empty if it is. `manifest`: its bytes, if read.

    Its manifest has to be the one by which the directory was named, and its signature to have the form of one. Under
    `dev` that is all that is looked at: whether somebody signed it was looked at when it came.
    """
    limit = get_file_max_bytes()
    try:
        manifest = read_plain_file(root / name_manifest(package_id), limit) if manifest is None else manifest
        if DIRECTORY.fullmatch(root.name) and not hashlib.sha256(manifest).hexdigest().startswith(root.name[-HEX:]):
            return "its manifest is not the one that was installed"
        data = read_plain_file(root / SIGNATURE, limit)
        signature = read_stated_signature(data) if policy.signatures == "dev" else check_signature(data, manifest)
    except BadSignature as fault:
        return str(fault)
    except FileNotFoundError as error:
        is_signature = Path(error.filename).name == SIGNATURE
        return "its signature is not there: nobody signed it" if is_signature else "its manifest is not there"
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    return explain_untrusted(signature.public_key, keys, policy)


def _make_damaged(path: Path, why: str) -> UsageFault:
    return UsageFault(f"{path}: {why}", hint="restore a copy, or remove it and name the keys again")
