"""Sections of the processes that the launcher runs, and of the launcher itself."""

from typing import Literal

from pydantic import Field

from hobus.bus.settings import NonNegative, Positive, PositiveFloat, Section


class LauncherConfig(Section):
    """Processes."""

    ready_timeout_ms: Positive = Field(description="`up --wait` gives up then")
    environment: list[str] = Field(
        description="variables that every process is started with, shell patterns allowed; others only by `env:NAME`"
    )
    processes_max: Positive = Field(description="processes of a cluster on this machine; more are refused")
    start_method: Literal["fork", "spawn"] = Field(
        description="fork: from the zygote, where the system can; spawn: fresh interpreters"
    )
    restart_backoff_min_ms: Positive = Field(
        description="pause before the second restart in a row (the first is at once); doubles, with jitter"
    )
    restart_backoff_max_ms: Positive = Field(description="cap of that pause; below bus.service_grace_ms")
    healthy_after_ms: Positive = Field(description="a process that lived this long starts its back-off anew")
    crash_budget: Positive = Field(description="crashes within crash_window_ms after which a process is failed")
    crash_window_ms: Positive = Field(description="window of crash_budget")
    stuck_after_ms: Positive = Field(description="a process without a beat this long is killed and restarted")
    drain_ms: Positive = Field(description="per process, then it is killed")
    finish_ms: Positive = Field(description="how long a process that a command ends may finish its work")
    orphan_drain_s: PositiveFloat = Field(description="how long orphans may finish runs when the launcher is gone")
    log_max_bytes: Positive = Field(description="a larger log is moved aside, as the one older file")
    client_timeout_ms: Positive = Field(description="how long a command waits for the cluster's own services")


class Ho1Config(Section):
    """Executors."""

    count: Positive = Field(description="executors that `hobus up` starts")
    orders_max: Positive = Field(description="orders at once per executor")
    repair_calls_max: NonNegative = Field(description="further calls after an answer that breaks its schema")


class Ho2Config(Section):
    """Supervisors."""

    count: Positive = Field(description="supervisors that `hobus up` starts")
    classify: bool = Field(description="a turn begins with a classification; false: no labels")
    classify_timeout_ms: Positive = Field(description="classification; a turn goes on without it")
    history_turns_max: Positive = Field(description="turns of a session read for its history")


class HostConfig(Section):
    """The session host."""

    agent_id: str = Field(description="who answers when a client names no agent")
    prompt_max_bytes: Positive = Field(description="a longer message of a user is refused")
    degrade_reserve_ms: Positive = Field(description="kept of a client's deadline for degrading")
    turn_timeout_ms: Positive = Field(description="a client's deadline when it names none")


class HttpConfig(Section):
    """The HTTP door (docs/http.md)."""

    listen: str = Field(description="HOST:PORT; port 0: any free one; empty: no HTTP")
    count: Positive = Field(description="processes that `hobus up` starts, on one port")
    hosts: list[str] = Field(description="further names by which clients may call it (Host header)")
    origins: list[str] = Field(description="origins of web pages whose scripts may call it")
    body_max_bytes: Positive = Field(description="of a request; a larger one is refused")
    connections_max: Positive = Field(description="connections of one process; a further one is refused")
