from clerk import NOTES, clerk

from hobus.testing import ScriptedCluster, ScriptedModel, call

hobus_agents = [clerk]


def test_a_note_is_kept_once_somebody_has_approved(hobus_cluster: ScriptedCluster) -> None:
    asked = call("clerk_note", text="buy milk")
    hobus_cluster.use(ScriptedModel([asked, "I keep it."]))
    before, answer = NOTES.read_text() if NOTES.exists() else "", ""
    session = hobus_cluster.start()
    for piece in hobus_cluster.stream("I need milk.", session_id=session):
        for held in piece.data.get("held_calls", ()):
            assert (NOTES.read_text() if NOTES.exists() else "") == before
            hobus_cluster.approve(session, held["call_id"])
        answer = piece.result.text if piece.result else ""
    assert answer == "I keep it."
    assert NOTES.read_text() == before + "buy milk\n"
