"""Section `governance`: packages, signatures, and the size of governed files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import Positive, Section


class GovernanceConfig(Section):
    """Which packages are believed, and how large one may be."""

    signatures: Literal["dev", "signed"] = Field(
        description="dev: any signature will do; signed: only keys of `hobus package trust list` count, and the home's "
        "own files are admin_config.json alone"
    )
    bundle_max_bytes: Positive = Field(description="one bundle, and all files of one package together")
    file_max_bytes: Positive = Field(description="one file of a package")
    files_max: Positive = Field(description="files of one package")
    entries_max: Positive = Field(description="values in one governed file but the settings, at any depth")
    packages_max: Positive = Field(description="packages installed at once")
    trusted_max: Positive = Field(description="keys trusted at once")
