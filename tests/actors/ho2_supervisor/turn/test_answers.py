"""What is told of an input whose run is over."""

from __future__ import annotations

import pytest

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_body_ref, derive_requested_id
from tests.actors.ho2_supervisor.ownership.test_history_lookup import session_of
from tests.actors.ho2_supervisor.rig import SESSION, Rig


def test_an_answer_that_does_not_read_is_damage_and_names_its_place() -> None:
    """Nothing is guessed, and nothing runs again; what stands there is not told."""
    with Rig() as rig:
        rig.run(rig.start_session())
        answer = rig.run(rig.turn("in-1", "a secret question"))
        assert rig.run(rig.turn("in-1", "a secret question")) == answer
        ref = derive_body_ref(derive_requested_id(SESSION, "in-1"), 1)
        session_of(rig).record.inputs["in-1"].result_ref = ref
        with pytest.raises(RuntimeFault) as raised:
            rig.run(rig.turn("in-1", "a secret question"))
    assert raised.value.code == "damaged" and ref in raised.value.detail
    assert "secret" not in raised.value.detail
