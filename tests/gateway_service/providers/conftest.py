"""Providers of these tests are closed behind each of them, whatever became of it."""

from __future__ import annotations

import pytest

from hobus.gateway_service.providers.http import clients
from hobus.gateway_service.providers.http.clients import SdkClient


@pytest.fixture(autouse=True)
async def closed(monkeypatch: pytest.MonkeyPatch):
    made: list[SdkClient] = []
    make = clients.make_client

    def make_noted(*given, **named) -> SdkClient:
        made.append(make(*given, **named))
        return made[-1]

    monkeypatch.setattr(clients, "make_client", make_noted)
    yield
    for one in made:
        await one.close()
