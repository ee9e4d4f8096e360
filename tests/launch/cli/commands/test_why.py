"""How `hobus diff` looks its turns up."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

from hobus.launch.cli.commands import why
from hobus.launch.sessions import journal


def test_both_turns_of_a_diff_are_looked_up_at_one_opening_of_the_record(monkeypatch):
    """Whose notice, that no cluster runs, is said once."""
    opened: list[object] = []

    async def named(given: str) -> str:
        return given.lower()

    async def newest(_session_id: str, _limit: int) -> tuple[list[str], bool]:
        return ["an entry"], False

    @asynccontextmanager
    async def journals_of(home):
        opened.append(home)
        yield SimpleNamespace(named=named, newest=newest)

    monkeypatch.setattr(journal, "journals_of", journals_of)
    monkeypatch.setattr(why, "explained", lambda _home, session_id, wanted: (session_id, wanted))
    found = why._explained("home", "SES-1F75A111-1", "SES-2F75A111")
    assert found == [("ses-1f75a111", "1"), ("ses-2f75a111", None)]
    assert opened == ["home"]
