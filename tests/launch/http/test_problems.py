"""What a fault is told as."""

import pytest

from bus.errors import BusError, SessionFault
from bus.messages.ids import session_id_of
from bus.messages.session import TurnResult
from launch.http.problems import of_fault, of_result


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (BusError("cancelled", "http/1 stopped before it was answered"), 503, "door_closing"),
        (BusError("busy", "x", retry_after_ms=1200), 429, "busy"),
        (SessionFault("run_active", "x"), 409, "run_active"),
        (BusError("internal", "x"), 500, "internal"),
    ],
)
def test_a_fault_has_its_status(fault, status, code):
    """A door that ends may be asked the same again elsewhere: that is no verdict on the turn."""
    problem = of_fault(fault)
    assert (problem.status, problem.code) == (status, code)
    assert problem.headers == {"busy": {"retry-after": "2"}, "door_closing": {"retry-after": "1"}}.get(code, {})


def test_a_cancelled_turn_is_a_verdict():
    """Its client is not to ask again."""
    session = session_id_of("door", "in-1")
    told = {"response": "cancelled", "outcome": "error", "session_id": session, "run_id": None, "input_id": "in-1"}
    problem = of_result(TurnResult(code="cancelled", **told))
    assert problem is not None and problem.status == 409
    assert of_result(TurnResult(code="degraded", **told | {"outcome": "degraded"})) is None
