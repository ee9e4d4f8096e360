"""What a door refuses by itself, and for how long."""

import pytest

from hobus.launch.http.limits import REFUSED_FOR_S
from hobus.launch.http.problems import Problem


def test_its_own_refusals_do_not_prolong_those_of_the_cluster(door):
    made = door.doors[0]
    bus = made.bus

    async def asked():
        made.note_refusal("ann", Problem(429, "busy", "of the cluster"))
        for _ in range(2):
            await bus.sleep(0.4 * REFUSED_FOR_S)
            with pytest.raises(Problem) as refused:
                made.require_room("ann")
            made.note_refusal("ann", refused.value)
            made.require_room("bob")
        await bus.sleep(0.2 * REFUSED_FOR_S)
        made.require_room("ann")

    door.run(asked())
