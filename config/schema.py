"""The shape of `admin_config.json`: the one source of every threshold, time-out, retry count, window, limit and budget.

Frozen models that reject unknown keys. No field has a default: a missing value is a start-up error naming its path.
Units stand last in names.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import BusSettings, Section
from hobus.config.sections.gateway import GatewayConfig
from hobus.config.sections.processes import Ho1Config, Ho2Config, HostConfig, HttpConfig, LauncherConfig
from hobus.config.sections.record import Ho3Config, LedgerConfig
from hobus.config.sections.tools import ToolsConfig
from hobus.config.sections.turns import (
    AttentionConfig,
    BudgetConfig,
    ClassifyLabels,
    ProjectionConfig,
    QualityGateConfig,
    SessionsConfig,
)


class GovernanceConfig(Section):
    """Signatures of packages."""

    signatures: Literal["dev", "signed"] = Field(
        description="dev: any signature passes; signed: only keys of `hobus package trust list` pass, and "
        "the home may have no file of its own but admin_config.json"
    )


class AdminConfig(Section):
    """All of it."""

    bus: BusSettings
    ledger: LedgerConfig
    gateway: GatewayConfig
    budget: BudgetConfig
    projection: ProjectionConfig
    attention: AttentionConfig
    classify_labels: ClassifyLabels
    sessions: SessionsConfig
    quality_gate: QualityGateConfig
    tools: ToolsConfig
    launcher: LauncherConfig
    ho1: Ho1Config
    ho2: Ho2Config
    host: HostConfig
    http: HttpConfig
    governance: GovernanceConfig
    ho3: Ho3Config | None = None

    @property
    def memory(self) -> Ho3Config | None:
        """Return section ho3 if memory is on; None when it is missing or says `enabled: false`."""
        return self.ho3 if self.ho3 is not None and self.ho3.enabled else None
