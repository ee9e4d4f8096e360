"""What happens to the processes of a cluster, as a line for whoever has it in the foreground. Pure."""

from __future__ import annotations

from hobus.launch.console.output import clock_time, duration, joined, state_colour, styled
from hobus.launch.launcher.progress import Said, StateChanged
from hobus.launch.logs.lines import actor_colour

_SOON_S = 0.05


def line_of(word: StateChanged | Said) -> str:
    """Time, process and what became of it."""
    clock = f"{clock_time(word.at)}  "
    if isinstance(word, Said):
        return joined(clock, word.text)
    row = word.row
    name = styled(row.actor.ljust(len("gateway/1")), actor_colour(row.actor))
    return joined(clock, name, "  ", styled(became(word), state_colour(row.state)))


def became(word: StateChanged) -> str:
    """The change as the rest of a sentence."""
    row, was = word.row, word.was
    why = f": {row.note}" if row.note else ""
    match row.state:
        case "backoff":
            delay_s = row.next_try_at - word.at
            return f"died{why}; started again {f'in {duration(delay_s)}' if delay_s >= _SOON_S else 'at once'}"
        case "failed":
            return f"failed{why}"
        case "starting" if row.restarts:
            return f"is started again (restart {row.restarts})"
        case "starting":
            return "is started"
        case "ready" if was == "degraded":
            return "is ready again"
        case "ready":
            about = f", {word.about}" if word.about else ""
            return f"is ready {row.ready_after_ms} ms after its start (pid {row.pid}{about})"
        case "degraded":
            return f"is degraded{why}"
        case "draining":
            return "finishes its work, then ends"
        case "stopped":
            return f"has stopped{why}"
