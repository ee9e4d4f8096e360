"""Sections of the processes that the launcher runs, and of the launcher itself."""

from typing import Literal

from pydantic import Field

from hobus.bus.settings import Address, NonNegative, Positive, PositiveFloat, Section


class LauncherConfig(Section):
    """Processes."""

    ready_timeout_ms: Positive = Field(description="how long `up --wait` waits")
    environment: list[str] = Field(
        description="variables for every process (shell patterns); others only by `env:NAME`"
    )
    processes_max: Positive = Field(description="most processes of a cluster on this machine")
    start_method: Literal["fork", "spawn"] = Field(
        description="fork: from the zygote, if the system can; spawn: fresh interpreters"
    )
    restart_backoff_min_ms: Positive = Field(
        description="pause before the second restart in a row (the first is at once); doubles, with jitter"
    )
    restart_backoff_max_ms: Positive = Field(description="cap of that pause; below bus.service_grace_ms")
    healthy_after_ms: Positive = Field(description="uptime after which the back-off starts over")
    crash_budget: Positive = Field(description="crashes within crash_window_ms that make a process failed")
    crash_window_ms: Positive = Field(description="window of crash_budget")
    stuck_after_ms: Positive = Field(description="silence after which a process is killed and restarted")
    drain_ms: Positive = Field(description="time of a process to stop before it is killed")
    finish_ms: Positive = Field(description="time of a process stopped by a command to finish its work")
    orphan_drain_s: PositiveFloat = Field(description="time of processes to finish after the launcher's death")
    log_max_bytes: Positive = Field(description="size at which a log is rotated to `.1`")
    client_timeout_ms: Positive = Field(description="how long a command waits for the cluster's own services")


class Ho1Config(Section):
    """Executors."""

    count: Positive = Field(description="executors that `hobus up` starts")
    orders_max: Positive = Field(description="orders at once per executor")
    repair_calls_max: NonNegative = Field(description="further calls after an answer that does not fit its schema")


class Ho2Config(Section):
    """Supervisors."""

    count: Positive = Field(description="supervisors that `hobus up` starts")
    classify: bool = Field(description="classify messages; false: no labels")
    classify_timeout_ms: Positive = Field(description="longest classification; the turn continues without it")
    history_turns_max: Positive = Field(description="most turns that a prompt's history is made from")


class HostConfig(Section):
    """The session host."""

    agent_id: str = Field(description="the agent of clients that name none")
    prompt_max_bytes: Positive = Field(description="longest message of a user")
    degrade_reserve_ms: Positive = Field(description="part of a client's deadline kept for a degraded answer")
    turn_timeout_ms: Positive = Field(description="a turn's time limit if the client sets none")


class HttpConfig(Section):
    """The HTTP door (docs/http.md)."""

    listen: Address = Field(description="HOST:PORT; port 0: any free one; empty: no door")
    count: Positive = Field(description="processes that `hobus up` starts, on one port")
    hosts: list[str] = Field(description="further host names of the door (Host header)")
    origins: list[str] = Field(description="origins that may use CORS")
    body_max_bytes: Positive = Field(description="largest request")
    connections_max: Positive = Field(description="most connections of one process; then the longest silent goes")
