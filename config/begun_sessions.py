"""How sessions began, for who may have to answer in one without its supervisor: whose it is, which model it names."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import SessionConfig, SessionReady, StartSession
from hobus.bus.record.journal import read_event
from hobus.bus.record.session_facts import SessionStarted
from hobus.bus.window import remember
from hobus.config.assets import Contract
from hobus.config.model_choice import choose_model, get_named_route
from hobus.config.snapshot import Snapshot

T = TypeVar("T")


class BegunSessions:
    """The newest sessions, as many as a supervisor holds; of any other the record says how it began."""

    def __init__(self, sessions_max: int) -> None:
        self._begun: OrderedDict[str, tuple[str, SessionConfig]] = OrderedDict()
        self._sessions_max = sessions_max

    def started(self, start: StartSession | None, answer: T) -> T:
        """Remember a session that has begun, as its start names it, unless it is known; return the answer as it is."""
        is_old = isinstance(answer, SessionReady) and not answer.is_new
        if start is not None and start.session_id is not None and start.session_id not in self._begun and not is_old:
            self._keep(start.session_id, start.agent_id or "", start.session_config)
        return answer

    def read(self, session_id: str, entry: Entry | None) -> None:
        """Remember what the session's SESSION_START says, if there is one."""
        if entry is not None and isinstance(event := read_event(entry).event, SessionStarted):
            self._keep(session_id, event.agent_id, event.session_config)

    def route(
        self, session_id: str, agent_id: str, request: SessionConfig | None, contract: Contract, snapshot: Snapshot
    ) -> tuple[str | None, str | None]:
        """Return provider and model that a prompt of this session names; `agent_id`: whose it is if nobody knows."""
        whose, wanted = self._begun.get(session_id, (agent_id, None))
        gateway, agent = snapshot.config.gateway, snapshot.agents.get(whose)
        provider_id, model_id = get_named_route(choose_model(gateway, agent, contract, request=request, session=wanted))
        return provider_id or contract.boundary.provider_id, model_id

    def _keep(self, session_id: str, agent_id: str, wanted: SessionConfig) -> None:
        remember(self._begun, session_id, (agent_id, wanted), at_most=self._sessions_max)
