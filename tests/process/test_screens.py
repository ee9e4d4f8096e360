"""What is seen at a real terminal of 120, 80 and 60 columns: whole rows, in place, and the terminal as it was before."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.builders import write_config
from bench.cluster import Cluster, cluster_in, eventually
from bench.gateway.servers import DONE, USAGE_PIECE, Request, answering, completion, piece, served, streaming
from hobus.launch.cluster import identity
from tests.process.pseudo_terminal import Typing, typing

pytestmark = pytest.mark.process

NARROW = 60
WIDTHS = (120, NARROW)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster that has answered a question; nobody stops or kills anything in it."""
    cluster = cluster_in(tmp_path_factory.mktemp("screens") / "h")
    try:
        cluster.up("--scale", "ho1=2")
        cluster.ask("is the ledger intact?")
        yield cluster
    finally:
        cluster("down")


def seen(cluster: Cluster, command: str, *words: str, columns: int, colours: bool = False) -> Typing:
    """A command in a terminal, to its end."""
    env = {"NO_COLOR": ""} if colours else {}
    with typing(*command.split(), "--home", str(cluster.home.root), *words, columns=columns, rows=50, env=env) as typed:
        assert typed.end() == 0, typed.text
    return typed


def test_who_stands_still_is_stalled(cluster: Cluster, tmp_path: Path) -> None:
    """Not ready and green: since when, as its last beat tells."""
    cluster.up("--config", str(write_config(tmp_path / "config.json", ("launcher.stuck_after_ms", 120_000))))
    frozen = cluster.row("ho1/1")
    identity.end(frozen.pid, frozen.mark, signal.SIGSTOP)
    eventually(lambda: cluster.row("ho1/1").silent_since)
    typed = seen(cluster, "ps", columns=120, colours=True)
    (number,) = [number for number, row in enumerate(typed.screen.display) if row.startswith("ho1/1")]
    cells = typed.screen.display[number].split()
    assert cells[1] == "stalled" and typed.screen.buffer[number][typed.screen.display[0].index("STATE")].fg == "red"
    assert "no beat for" in typed.screen.display[number] and "frozen" in typed.text
    shown = next(row for row in cluster("ps", "--json").json["actors"] if row["actor"] == "ho1/1")
    assert shown["state"] == "stalled" and shown["last_beat_ms"] > 1000
    identity.end(frozen.pid, frozen.mark, signal.SIGCONT)
    eventually(lambda: not cluster.row("ho1/1").silent_since)


def test_a_start_shows_each_process(cluster: Cluster) -> None:
    """State, time and pid of each, and what to do next; a second one says that it is up."""
    typed = seen(cluster, "up", "--wait", columns=NARROW)
    rows = [row.split() for row in typed.seen if row.split()[1:2] == ["ready"]]
    assert {row[0] for row in rows} == {row.actor for row in cluster.run().children}
    assert all(row[1] == "ready" and row[3:5] == ["ms", "pid"] for row in rows)
    flat = "".join(row.strip() for row in typed.seen).replace(" ", "")
    assert "talk:hobuschat" in flat and "watch:hobustap" in flat and "stop:hobusdown" in flat
    assert "is up already" in seen(cluster, "up", "--wait", columns=NARROW).text


ANSWER = """# What stands there

The record is **whole**, and it says so in `hobus ledger verify`, which reads every byte of it from the first one to the last:

- one item, which is long enough to be broken at the end of a row in every terminal that is looked at here, whatever its width
- 日本語の文字は二つの桁を取るので、行の終わりは文字の数では決まらない。端末の幅で決まるのである。

```python
print("a block")
```
"""


async def say_markdown(request: Request, writer: asyncio.StreamWriter) -> None:
    """A classification whole; an answer in pieces of a few letters where that is wanted."""
    if "response_format" in request.json or "labels" in str(request.json["messages"][0]):
        await answering(completion('{"speech_act": "command", "ambiguity": "low"}'))(request, writer)
    elif request.json.get("stream"):
        pieces = [piece(content=ANSWER[at : at + 7]) for at in range(0, len(ANSWER), 7)]
        await streaming([*pieces, piece("stop"), USAGE_PIECE], end=DONE)(request, writer)
    else:
        await answering(completion(ANSWER))(request, writer)


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose model answers in Markdown."""
    with served(say_markdown) as at:
        cluster = cluster_in(tmp_path_factory.mktemp("markdown") / "h", {"THE_KEY": "sk-none"})
        try:
            words = ("--base-url", f"{at.url}/v1", "--model", "tiny=1/2/0.5", "--key", "env:THE_KEY", "--default")
            added = cluster("provider add", "mine", "--kind", "openai", *words)
            assert added.code == 0, added.err
            cluster.up()
            yield cluster
        finally:
            cluster("down")


@pytest.mark.parametrize("columns", WIDTHS)
def test_an_answer_in_the_chat_stands_as_markdown(writing: Cluster, columns: int) -> None:
    """Once, in rows that fit: marks are gone, items hang under each other, code stays as it is, wide letters stay whole."""
    words = ("chat", "--home", str(writing.home.root))
    with typing(*words, columns=columns, rows=60, env={"NO_COLOR": "", "THE_KEY": "sk-none"}) as chat:
        chat.at_prompt()
        chat.type("what stands there?")
        chat.until(" tokens · ")
        assert chat.leave() == 0
    rows = chat.seen
    at = rows.index("What stands there")
    assert rows.count("What stands there") == 1
    heading = chat.screen.buffer[chat.screen.display.index(f"{rows[at]:{columns}}")][0]
    assert heading.bold or heading.underscore
    shown = rows[at : next(number for number, row in enumerate(rows) if " tokens · " in row)]
    text = " ".join(" ".join(shown).split())
    assert "The record is whole, and it says so in hobus ledger verify, which reads every byte" in text
    assert "**" not in text and text.count("```") == 2
    assert 'print("a block")' in shown
    items = [number for number, row in enumerate(shown) if row.startswith(" • ")]
    assert len(items) == 2
    between = shown[items[0] + 1 : items[1]]
    assert all(row.startswith("   ") for row in between) and (between or columns == 120)
    assert (
        "".join(row.strip() for row in shown[items[1] :])
        .replace(" ", "")
        .startswith("•日本語の文字は二つの桁を取るので、行の終わりは文字の数では決まらない。端末の幅で決まるのである。")
    )
