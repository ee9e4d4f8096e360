"""What a session has cost when it ends: every turn's calls, however the turn ended."""

from __future__ import annotations

import pytest

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import Cancel, SessionClosed
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from tests.actors.ho2_supervisor.rig import Answer, Rig, classified, degraded_entry

COST_OF_A_CALL = 110


@pytest.mark.parametrize(
    ("ends", "tokens"), [("failed", 2 * COST_OF_A_CALL), ("cancelled", COST_OF_A_CALL), ("degraded", 7)]
)
def test_an_end_counts_what_turns_without_an_answer_have_cost(ends: str, tokens: int) -> None:
    """Their calls were paid for as well."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified()
        return None if ends == "cancelled" else WorkOrderError(code="output_invalid", message="no")

    with Rig(script=script) as rig:

        async def run() -> SessionClosed:
            await rig.start_session()
            match ends:
                case "failed":
                    with pytest.raises(RuntimeFault):
                        await rig.turn("i1", "hello")
                case "cancelled":
                    asking = rig.world.loop.create_task(rig.turn("i1", "hello"))
                    await rig.until(lambda view: view.run is not None and view.run.rounds >= 2)
                    await rig.command(Cancel())
                    await asking
                case _:
                    await rig.write(degraded_entry("i1", "hello", "short", total_tokens=7))
            return await rig.end_session()

        closed = rig.run(run())
        assert closed.total_tokens == tokens


@pytest.mark.parametrize(("mode", "over"), [("warn", [120, 340]), ("enforce", [0, 0]), ("off", [0, 0])])
def test_in_mode_warn_an_answer_says_how_far_its_session_is_beyond_its_budget(mode: str, over: list[int]) -> None:
    """Where it is enforced nothing gets there, and where it is off there is none."""
    with Rig(("budget.budget_mode", mode), ("budget.session_token_limit", 100)) as rig:
        rig.run(rig.start_session())
        assert [rig.run(rig.turn(input_id, "hello")).over_budget for input_id in ("i1", "i2")] == over
