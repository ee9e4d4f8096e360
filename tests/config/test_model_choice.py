"""Which model a prompt goes to, and who named it."""

from __future__ import annotations

import pytest

from hobus.bus.messages.session import SessionConfig
from hobus.config.consistency import find_inconsistencies
from hobus.config.load import read
from hobus.config.model_choice import choose_model, find_choice_fault, get_named_route
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import GatewayConfig, Route

GOVERNED = read().governed()


def gateway(tagged: str = "") -> GatewayConfig:
    """Three providers of two models each; `tagged`: where a domain tag sends classifications."""
    whole = GOVERNED.config.gateway.model_dump()
    shipped = whole["providers"]["offline"]
    models = [shipped["models"][0] | {"model_id": name} for name in ("big", "small")]
    whole["providers"] |= {name: shipped | {"models": models} for name in ("one", "two", "three")}
    whole["default_route"] = {"provider_id": "one", "model_id": "big"}
    if tagged:
        whole["domain_tag_routes"] = {"classification": {"provider_id": tagged, "model_id": "small"}}
    return GatewayConfig.model_validate(whole)


ADMIN = GOVERNED.agents["ADMIN"].model_copy(update={"permissions": GOVERNED.agents["ADMIN"].permissions.model_copy(
    update={"providers": ("*",), "models": ("*",)}
)})  # fmt: skip
OF_AGENT = ADMIN.model_copy(update={"model": Route(provider_id="two", model_id="small")})
CONTRACT = GOVERNED.contracts["PRC-SYNTHESIZE-001"]
OF_CONTRACT = CONTRACT.model_copy(update={"boundary": CONTRACT.boundary.model_copy(update={"provider_id": "three"})})
REQUEST, SESSION = SessionConfig(provider="three", model="small"), SessionConfig(provider="two", model="big")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"agent": OF_AGENT, "contract": OF_CONTRACT, "request": REQUEST, "session": SESSION}, "three/small request"),
        ({"agent": OF_AGENT, "contract": OF_CONTRACT, "session": SESSION}, "two/big session"),
        ({"agent": OF_AGENT, "contract": OF_CONTRACT}, "two/small agent"),
        ({"contract": OF_CONTRACT}, "three/big contract"),
        ({}, "one/big default"),
        ({"request": SessionConfig(model="small"), "session": SESSION}, "two/small request"),
        ({"request": SessionConfig(model="small")}, "one/small request"),
        ({"request": SessionConfig(provider="two"), "session": SESSION}, "two/big request"),
        ({"request": SessionConfig(provider="three"), "session": SESSION}, "three/big request"),
        ({"request": SessionConfig(model="three/small")}, "three/small request"),
        ({"request": SessionConfig(model="meta/llama")}, "one/meta/llama request"),
        ({"request": SessionConfig(max_tokens=7)}, "one/big default"),
    ],
)  # fmt: skip
def test_the_first_that_names_one_decides(given: dict, named: str) -> None:
    chosen = choose_model(gateway(), **({"agent": ADMIN, "contract": CONTRACT} | given))
    assert f"{chosen.provider}/{chosen.model} {chosen.named_by}" == named


@pytest.mark.parametrize(
    ("tagged", "request_", "named"),
    [
        ("two", None, (None, None)),  # nobody names one: the gateway goes by the tag
        ("two", SESSION, ("two", "small")),  # the tag's model is one of the provider that is named
        ("three", SESSION, ("two", "big")),  # it is another one's, who gets nothing
        ("", SESSION, ("two", "big")),
    ],
)
def test_nothing_of_a_turn_goes_to_another_provider_than_the_named_one(
    tagged: str, request_: SessionConfig | None, named: tuple[str | None, str | None]
) -> None:
    chosen = choose_model(gateway(tagged), ADMIN, None, request=request_, tag="classification")
    assert get_named_route(chosen) == named


@pytest.mark.parametrize(
    ("permissions", "wanted", "code", "said"),
    [
        ({}, SessionConfig(provider="nobody"), "PROVIDER_NOT_FOUND", "there are offline, one, three, two"),
        ({}, SessionConfig(provider="offline", model="small"), "MODEL_NOT_FOUND", "name it as one/small or three/small"),
        ({}, SessionConfig(model="zzz/m1"), "MODEL_NOT_FOUND", "there is no provider 'zzz' either, only offline, one, three, two"),
        ({"providers": ("one",)}, REQUEST, "FORBIDDEN", "provider three (named by the request)"),
        ({"models": ("big",)}, REQUEST, "FORBIDDEN", "permissions.models in agents/ADMIN.json"),
        ({"providers": ("three",), "models": ("small",)}, REQUEST, "", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_had_or_is_not_permitted_is_said_with_the_mend(
    permissions: dict, wanted: SessionConfig, code: str, said: str
) -> None:
    agent = ADMIN.model_copy(update={"permissions": ADMIN.permissions.model_copy(update=permissions)})
    fault = find_choice_fault(choose_model(gateway(), agent, None, request=wanted), agent, gateway())
    assert (fault.code if fault else "") == code
    assert fault is None or said in fault.detail


@pytest.mark.parametrize(
    ("model", "permissions", "said"),
    [
        (Route(provider_id="two", model_id="none"), {}, "model: provider two has no model 'none'"),
        (Route(provider_id="two", model_id="big"), {"providers": ("one",)}, "model: agent ADMIN may not use provider two"),
        (Route(provider_id="two", model_id="big"), {}, None),
    ],
)  # fmt: skip
def test_a_model_that_an_agent_cannot_have_is_found_at_the_start(
    model: Route, permissions: dict, said: str | None
) -> None:
    """It would refuse each of its turns."""
    agent = OF_AGENT.model_copy(
        update={"model": model, "permissions": ADMIN.permissions.model_copy(update=permissions)}
    )
    config = AdminConfig.model_validate(GOVERNED.config.model_dump() | {"gateway": gateway().model_dump()})
    found = find_inconsistencies(
        config, {"ADMIN": agent}, GOVERNED.contracts, GOVERNED.prompt_packs, GOVERNED.frameworks
    )
    assert [fault for fault in found if not fault.startswith(f"agents/ADMIN.json: {said}")] == []
    assert len(found) == (said is not None)
