"""Section `governance`: packages, signatures, and the size of governed files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import Positive, Section


class GovernanceConfig(Section):
    """Which packages are believed, and how large one may be."""

    signatures: Literal["dev", "signed"] = Field(
        description="dev: a package has to be signed, by whatever key, and files of the home's own are taken as they "
        "are; signed: only keys of `hobus package trust list` count, and the home has no files of its own but "
        "admin_config.json"
    )
    bundle_max_bytes: Positive = Field(description="one bundle, and all files of one package together")
    file_max_bytes: Positive = Field(description="one file of a package")
    files_max: Positive = Field(description="files of one package")
    entries_max: Positive = Field(
        description="values in one governed file but the settings, those within its lists and objects counted"
    )
    packages_max: Positive = Field(description="packages installed at once")
    trusted_max: Positive = Field(description="keys trusted at once")
