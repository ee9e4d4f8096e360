"""The life of one request in the broker: every state, every event, and what comes of it.

A request is *placing* only within the step that took it in or took it from somewhere: by the end of that step it waits,
is in flight at one worker, or is done. *Stopping*: its worker was told to stop, and what that one then answers is the
answer. Done is done: another frame about it is a stranger's, or comes late (`Delivery._stray`), and asking again under
its id is a new request. What a worker still works on after that is no request any more but that worker's affair
(`Peer.late`): it holds a slot there, and its answer is nobody's.

What a peer sends, and time, can only bring about what stands here. An event that a state does not know is a defect of
the broker: `IllegalMove`, and the state is as it was.
"""

from __future__ import annotations

from typing import Final, Literal

RequestState = Literal["placing", "waiting", "in_flight", "stopping", "done"]
RequestEvent = Literal[
    "queued",  # it stands in its service's waiting room
    "taken_out",  # of the waiting room, to be placed anew
    "bound",  # a worker has it: it was delivered, or that worker said hello with it, or gets it once more
    "handed_over",  # a post has its taker
    "asked_again",  # somebody wants it under the same id
    "cancelled",  # nobody wants it any more
    "answered",
    "worker_lost",  # or the frame that would have brought it there
    "expired",
    "failed",  # the broker gives it up
]

REQUEST_TRANSITIONS: Final[dict[RequestState, dict[RequestEvent, RequestState]]] = {
    "placing": {
        "queued": "waiting",
        "bound": "in_flight",
        "handed_over": "done",
        "expired": "done",
        "failed": "done",
    },
    "waiting": {
        "taken_out": "placing",
        "bound": "in_flight",
        "asked_again": "waiting",
        "cancelled": "done",
        "expired": "done",
        "failed": "done",
    },
    "in_flight": {
        "bound": "in_flight",
        "asked_again": "in_flight",
        "cancelled": "stopping",
        "answered": "done",
        "worker_lost": "placing",
        "expired": "done",
        "failed": "done",
    },
    "stopping": {
        "bound": "stopping",
        "asked_again": "in_flight",
        "cancelled": "stopping",
        "answered": "done",
        "worker_lost": "done",
        "expired": "done",
        "failed": "done",
    },
    "done": {},
}


class IllegalMove(RuntimeError):
    """Say that a request was to do what its state does not allow."""
