"""A turn of the past, found by its run: answered, failed, or not there."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.ownership.history_lookup import read_turn_of_run
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, one_tool


def run_id(number: int) -> RunId:
    """The n-th run of the rig's session."""
    return RunId(session_id=SESSION, run_seq=number)


def test_an_answered_turn_has_both_texts_their_refs_and_its_tools() -> None:
    """What was asked, what was said, where both stand, and each tool once; without owning the session."""
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "what packages are installed?"))
        found = rig.run(read_turn_of_run(rig.ledger_client("operator"), run_id(1), "offline"))
        assert found is not None
        assert (found.input_text, found.tool_ids) == ("what packages are installed?", ("list_packages", "list_tools"))
        assert found.reply_text is not None and found.reply_text.startswith("from tools: ")
        assert (found.input_ref, found.reply_ref) == (
            f"RunRequested:{SESSION}/i1/1", f"RunCompleted:{SESSION}-1/2",
        )  # fmt: skip
        assert rig.run(read_turn_of_run(rig.ledger_client("operator"), run_id(2), "offline")) is None


def test_a_failed_run_still_says_what_was_asked() -> None:
    """There is no answer to name it by, so the index finds its request."""

    def broken(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else WorkOrderError(code="PROVIDER_ERROR", message="down")

    with Rig(script=broken) as rig:
        rig.run(rig.start_session())
        try:
            rig.run(rig.turn("i1", "what packages are installed?"))
        except RuntimeFault as fault:
            code = fault.code
        rig.run(rig.host.sleep(1))  # until the index has it
        assert code == "PROVIDER_ERROR"
        found = rig.run(read_turn_of_run(rig.ledger_client("operator"), run_id(1), "offline"))
        assert found is not None
        assert (found.input_text, found.reply_text, found.reply_ref) == ("what packages are installed?", None, "")
