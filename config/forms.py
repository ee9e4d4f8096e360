"""The forms that ids and other texts of governed files have, each with the words in which a fault asks for it."""

from __future__ import annotations

from collections.abc import Mapping

NOT_BLANK = r"\S"
VERSION = r"^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}$"
TIMESTAMP = r"^[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z$"
AGENT_ID = r"^[A-Z][A-Z0-9_]{0,63}$"
FRAMEWORK_ID = r"^FMWK-[0-9]{3}$"
SPEC_ID = r"^SPEC-[A-Z0-9]+(-[A-Z0-9]+)*$"
PACKAGE_ID = r"^PKG-[A-Z0-9]+(-[A-Z0-9]+)*$"
CONTRACT_ID = r"^PRC-[A-Z0-9]+-[0-9]{3}$"
PROMPT_PACK_ID = r"^PRM-[A-Z0-9]+-[0-9]{3}$"
TEMPLATE_ID = r"^ATT-[A-Z0-9]+-[0-9]{3}$"
GOVERNED_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
PLACES = r"^[A-Za-z0-9_.*-]+(/[A-Za-z0-9_.*-]+)*$"

WORDS: Mapping[str, str] = {
    NOT_BLANK: "a text that is not blank",
    VERSION: "three numbers, such as 1.0.0",
    TIMESTAMP: "a time in UTC, such as 2026-11-25T09:30:00Z",
    AGENT_ID: "a capital letter, then A-Z, 0-9 and `_`, 64 at most, such as CLERK",
    FRAMEWORK_ID: "`FMWK-` and three digits, such as FMWK-200",
    SPEC_ID: "`SPEC-` and parts of A-Z and 0-9 with hyphens between, such as SPEC-CLERK-001",
    PACKAGE_ID: "`PKG-` and parts of A-Z and 0-9 with hyphens between, such as PKG-CLERK-001",
    CONTRACT_ID: "`PRC-`, a name of A-Z and 0-9, a hyphen and three digits, such as PRC-CLERK-001",
    PROMPT_PACK_ID: "`PRM-`, a name of A-Z and 0-9, a hyphen and three digits, such as PRM-CLERK-001",
    TEMPLATE_ID: "`ATT-`, a name of A-Z and 0-9, a hyphen and three digits, such as ATT-CLERK-001",
    GOVERNED_PATH: "a path below config/ of A-Z, a-z, 0-9 and `._-`, such as agents/CLERK.json",
    PLACES: "a path below config/, in which `*` stands for a part of a name, such as prompt_packs/PRM-CLERK-*.txt",
}
"""Form -> what is to be written."""
