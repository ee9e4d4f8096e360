"""Named settings of a provider: how its models are asked."""

from __future__ import annotations

import pytest

from bench.builders import prompt
from hobus.bus.errors import GatewayError
from hobus.config.sections.gateway import Route
from hobus.gateway_service.routing import with_profile
from tests.gateway_service.rig import Cluster, Scripted, payload, snapshot
from tests.rig import of_type

OFFLINE = Route(provider_id="offline", model_id="offline-rules-1")


def profile(**settings):
    """A profile of the embedded provider, which changes nothing but this."""
    return {"provider_id": "offline", "temperature": None, "reasoning_effort": None, "max_tokens": None} | settings


PROFILES = {
    "careful": profile(temperature=0.1, reasoning_effort="High", max_tokens=50),
    "plain": profile(),
}
CONFIG = snapshot(gateway={"profiles": PROFILES}).config.gateway


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (None, {}, (0.7, None, 100)),
        ("plain", {}, (0.7, None, 100)),
        ("careful", {}, (0.1, "High", 50)),
        ("careful", {"reasoning_effort": "Low", "max_tokens": 20}, (0.1, "Low", 20)),
    ],
)
def test_a_profile_fills_what_the_run_leaves_open(name, changes, expected):
    asked = with_profile(prompt(**{"temperature": 0.7, "provider_profile_id": name} | changes), OFFLINE, CONFIG)
    assert (asked.temperature, asked.reasoning_effort, asked.max_tokens) == expected


@pytest.mark.parametrize(("name", "provider_id"), [("careless", "offline"), ("careful", "other")])
def test_a_profile_that_is_not_the_provider_s_is_refused_by_name(name, provider_id):
    route = Route(provider_id=provider_id, model_id="m")
    with pytest.raises(GatewayError) as caught:
        with_profile(prompt(provider_profile_id=name), route, CONFIG)
    assert caught.value.code == "PROVIDER_NOT_FOUND"
    assert name in caught.value.detail


def test_the_provider_is_asked_as_the_profile_says_and_the_record_says_so():
    provider = Scripted()
    cluster = Cluster(provider, gateway={"profiles": PROFILES})
    cluster.run(cluster.ask(prompt(provider_profile_id="careful")))
    refused = cluster.run(cluster.ask(prompt("WO-b#1", provider_profile_id="careless")))
    entries = cluster.run(cluster.entries(rests_s=2))
    cluster.close()
    (asked,) = provider.prompts
    assert (asked.temperature, asked.reasoning_effort, asked.max_tokens) == (0.1, "High", 50)
    (sent,) = of_type(entries, "PROMPT_SENT")
    told = payload(sent)
    assert (told.provider_profile_id, told.temperature, told.max_tokens) == ("careful", 0.1, 50)
    assert (refused.outcome, refused.error_code) == ("REJECTED", "PROVIDER_NOT_FOUND")
