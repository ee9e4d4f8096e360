"""Governed assets: what steers an agent without being code. Models of the files below `config/`.

Files are found by `files.py`, read by `load.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from hobus.bus.messages.given_history import find_own_words
from hobus.config import parse as forms
from hobus.config.sections.gateway import Route
from hobus.config.sections.tools import ToolsConfig
from hobus.config.sections.turns import BudgetConfig

Text = Annotated[str, Field(min_length=1, pattern=forms.NOT_BLANK)]
Version = Annotated[str, Field(pattern=forms.VERSION)]
"""One text for one version: no leading zeros, no digits of another script."""
BudgetPurpose = Literal["session", "agent", "classify", "synthesize", "consolidate", "history", "projection"]
BUDGET_SETTINGS: Mapping[BudgetPurpose, str] = {
    "session": "session_token_limit",
    "agent": "agent_token_limit",
    "classify": "classify_budget",
    "synthesize": "synthesize_budget",
    "consolidate": "consolidation_budget",
    "history": "history_budget",
    "projection": "projection_budget",
}
"""Purpose -> the setting of section `budget` that holds for agents that name no other."""
ContractPurpose = Literal["synthesize", "classify", "consolidate"]
_QUESTION_WITH_DOCUMENTS = "### Task:\nRespond to the user query"
"""What Open WebUI puts before a person's question, with documents or results of a search: no housekeeping."""
Timestamp = Annotated[str, Field(pattern=forms.TIMESTAMP)]
AgentId = Annotated[str, Field(pattern=forms.AGENT_ID)]
FrameworkId = Annotated[str, Field(pattern=forms.FRAMEWORK_ID)]
SpecId = Annotated[str, Field(pattern=forms.SPEC_ID)]
PackageId = Annotated[str, Field(max_length=64, pattern=forms.PACKAGE_ID)]
HOME_PACKAGE: PackageId = "PKG-HOME"
"""Owns what a home has of its own and no package of its lists: derived, and written nowhere."""
ContractId = Annotated[str, Field(pattern=forms.CONTRACT_ID)]
PromptPackId = Annotated[str, Field(pattern=forms.PROMPT_PACK_ID)]
TemplateId = Annotated[str, Field(pattern=forms.TEMPLATE_ID)]
GateId = Literal["G0", "G1", "G2", "G3", "G4", "G5", "G6"]
AgentClass = Literal["KERNEL.syntactic", "KERNEL.semantic", "ADMIN", "RESIDENT"]
Tier = Literal["hot", "ho2", "ho1"]
GovernedPath = Annotated[str, Field(pattern=forms.GOVERNED_PATH)]
"""Relative to `config/`, `/`-separated, never leaving it."""


class Asset(BaseModel):
    """A frozen governed record; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def names(patterns: Collection[str], tool_id: str) -> bool:
    """Return whether a list of tools names this one: by its id, by `<server>__*`, or by `*`."""
    if tool_id in patterns or "*" in patterns:
        return True
    return "__" in tool_id and any(p.endswith("__*") and tool_id.startswith(p[:-1]) for p in patterns)


def needs_approval(tools: ToolsConfig, tool_id: str) -> bool:
    """Return whether calls of this tool wait for an operator: a pattern of `tools.approval` fits."""
    return any(fnmatchcase(tool_id, pattern) for pattern in tools.approval)


def list_approval_rules(tools: ToolsConfig, tool_id: str) -> list[str]:
    """Return the Python tools that judge which calls of this tool wait for an operator."""
    return [rule for pattern, rule in tools.approval_rules if fnmatchcase(tool_id, pattern)]


class Permissions(Asset):
    """What an agent may use: exact names, or `*` for all of a kind."""

    tools: tuple[str, ...] = Field(description="tool ids, `<server>__*`, `*`; a writing tool only by its exact id")
    providers: tuple[str, ...] = Field(description="provider names; `*`: all")
    models: tuple[str, ...] = Field(description="model ids; `*`: all")
    paths: tuple[str, ...] = Field(
        description="roots (`/…` or `~/…`) of readable files; `*`: all. Never a cluster's home, nor a "
        "link that leaves a root"
    )

    def allows(self, kind: Literal["tools", "providers", "models", "paths"], name: str) -> bool:
        """Return whether `name` stands in that list, or the list holds `*`; of tools also `<server>__*`."""
        allowed: tuple[str, ...] = getattr(self, kind)
        return names(allowed, name) if kind == "tools" else name in allowed or "*" in allowed


class Approval(Asset):
    """Who approves calls of the tools in `tools.approval`."""

    by: Literal["anyone", "other"] = Field(
        default="anyone", description="other: a second person must approve, not who asked or steered"
    )


class AgentFile(Asset):
    """Who answers: `config/agents/<agent_id>.json`."""

    agent_id: AgentId = Field(description="the name of its file, and of `--agent`")
    agent_class: AgentClass = Field(
        description="RESIDENT serves users (your own agents), ADMIN answers about the cluster, "
        "KERNEL.syntactic and KERNEL.semantic are internal; it gives no rights"
    )
    framework_id: FrameworkId = Field(description="the framework whose rules apply, a directory below `frameworks/`")
    tier: Tier = Field(description="its plane: hot (turns of users), ho2, ho1; not enforced yet")
    system_prompt: Text = Field(description="its system prompt")
    attention: tuple[TemplateId, ...] = Field(
        description="attention templates (`ATT-…`) to choose from, the most specific first; empty: all"
    )
    tools: tuple[str, ...] = Field(
        description="tool ids, also of other agents; `<server>__*`: all of an MCP server, `*`: all but agents"
    )
    budget: dict[str, str] = Field(description="purpose -> key of section `budget`; by default the purpose's own")
    contracts: dict[ContractPurpose, ContractId] = Field(
        default_factory=dict,
        description="purpose (synthesize: answers, classify, consolidate) -> contract (`PRC-…`); by "
        "default the shipped one",
    )
    model: Route | None = Field(
        default=None,
        description="provider_id and model_id of its prompts, unless request or session name others; "
        "default: by contract, domain tag or gateway.default_route",
    )
    classification: Literal["before", "beside", "off"] = Field(
        default="beside",
        description="when a model classifies each message. before: first, so that labels choose memory "
        "lines and context; beside: at the same time as the answer; off: never, so without "
        "labels, intents or statements (docs/sessions.md)",
    )
    errands: tuple[Text, ...] = Field(
        default=("### Task:",),
        description="prefixes of a chat client's housekeeping messages (title, tags); default `### Task:` "
        "(Open WebUI). They get one model call without tools, memory or classification "
        "(docs/http.md)",
    )
    permissions: Permissions = Field(description="what it may use")
    output_schema: dict[str, Any] | None = Field(
        default=None,
        description="JSON Schema of each answer, an object, unless request or session set another; default: text",
    )
    memory: StrictBool = Field(default=True, description="false: its turns teach nothing and show nothing learned")
    takes_sampling: StrictBool = Field(
        default=True,
        description="true: temperature, top_p, seed and stop of a request count; false: only the contract's",
    )
    shares_texts: StrictBool = Field(
        default=False,
        description="true: a search of scope agent finds what anybody said to it, and in whose session; "
        "default: only its principal's texts",
    )
    approval: Approval = Field(default_factory=Approval, description="who approves its waiting calls")

    def is_errand(self, message: str) -> bool:
        """Return whether a client sent this message of its own accord, for itself."""
        said = find_own_words(message)
        return said.startswith(self.errands) and not said.startswith(_QUESTION_WITH_DOCUMENTS)

    def on_errand(self) -> AgentFile:
        """Return the agent as it answers such a message."""
        return self.model_copy(update={"tools": (), "classification": "off", "output_schema": None})

    def budget_tokens(self, purpose: BudgetPurpose, budget: BudgetConfig) -> int:
        """Return what this agent may spend on a purpose: by the setting that it names, else the purpose's own."""
        tokens: int = getattr(budget, self.budget[purpose] if purpose in self.budget else BUDGET_SETTINGS[purpose])
        return tokens

    def may_use(self, tool_id: str, *, writes: bool) -> bool:
        """Return whether the agent has the tool and may use it.

        One that writes needs its exact id in permissions.tools.

        So no wildcard hands out a tool that changes something, and none that a server adds one day.
        """
        permitted = self.permissions.tools
        return (tool_id in permitted if writes else names(permitted, tool_id)) and names(self.tools, tool_id)

    def is_withheld(self, tool_id: str, *, writes: bool) -> bool:
        """Return whether the agent has the tool, but only wildcards permit it: not enough for one that writes."""
        return (
            writes
            and tool_id not in self.permissions.tools
            and names(self.permissions.tools, tool_id)
            and names(self.tools, tool_id)
        )


def explain_withheld(agent_id: str, tool_id: str) -> str:
    """Return what keeps an agent from a tool, and what gives it."""
    return (
        f"{agent_id} is not given {tool_id}: it may change something, and only a wildcard permits it; "
        f'add "{tool_id}" to permissions.tools in agents/{agent_id}.json'
    )


class Boundary(Asset):
    """Limits of one model call."""

    max_tokens: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(description="output cap")
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)]
    provider_id: str | None = None
    structured_output: StrictBool = False


class RequiredContext(Asset):
    """What a contract wants assembled before its prompt."""

    ledger_queries: tuple[dict[str, Any], ...] = ()
    framework_refs: tuple[FrameworkId, ...] = ()
    file_refs: tuple[str, ...] = ()


class Contract(Asset):
    """What one kind of model call takes and gives: `config/contracts/<contract_id>.json`."""

    contract_id: ContractId
    version: Version
    prompt_pack_id: PromptPackId
    agent_class: AgentClass | None = None
    tier: Tier | None = None
    boundary: Boundary
    required_context: RequiredContext = RequiredContext()
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


class Invariant(Asset):
    """One rule of a framework and what enforces it."""

    level: Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"]
    statement: Text
    enforced_by: tuple[Text, ...] = Field(
        description="`tests/<file>.py::<test>` or `hobus.<module>:<name>`; a MUST names one (gate G4)"
    )


class Framework(Asset):
    """A set of rules: `config/frameworks/<framework_id>_<Name>/manifest.yaml`."""

    framework_id: FrameworkId
    title: Text
    version: Version
    status: Literal["draft", "active", "deprecated"]
    ring: Literal["kernel", "resident"]
    plane_id: Tier
    created_at: Timestamp
    assets: tuple[GovernedPath, ...] = Field(description="files beside the manifest")
    expected_specs: tuple[SpecId, ...]
    invariants: tuple[Invariant, ...]
    path_authorizations: tuple[Annotated[str, Field(pattern=forms.PLACES)], ...] = Field(
        description="patterns of paths below config/ that its packages may own"
    )
    required_gates: tuple[GateId, ...]


class Spec(Asset):
    """What a framework expects to be specified: `config/specs/<spec_id>/manifest.yaml`."""

    spec_id: SpecId
    framework_id: FrameworkId
    title: Text
    version: Version
    assets: tuple[GovernedPath, ...] = Field(description="paths below config/")


class OwnedFile(Asset):
    """One file of a package; gate G0 says what is wrong with path or hash, beside what lies there."""

    path: Text
    sha256: Text = Field(description="`sha256:` and 64 hex digits, of the file's bytes")
    classification: Literal[
        "source", "prompt_pack", "contract", "template", "agent", "framework", "schema", "config", "doc"
    ]


class FileInForce(Asset):
    """One governed file as a snapshot has it: which version, and whose."""

    sha256: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] = Field(description="of its bytes")
    package_id: str = Field(description="the package that owns it; empty: none does")


class Package(Asset):
    """Who owns which governed files: `config/packages/<package_id>/manifest.json`."""

    package_id: PackageId
    version: Version
    schema_version: Literal["1.2"]
    title: Text
    description: Text
    spec_id: SpecId
    framework_id: FrameworkId
    plane_id: Tier
    layer: Annotated[int, Field(ge=0, strict=True)]
    dependencies: tuple[PackageId, ...]
    assets: tuple[OwnedFile, ...]
