"""LangGraph's SqliteStore with so many items and no embeddings, in an environment of its own.

Driven by `bench.memory_store`: its one argument is JSON with the database's path, items and labels; each line of standard input is
JSON, `{"reads", "writes"}`, and the answer is one line of JSON with the milliseconds of each. A read searches by two labels
for twenty items; a write puts one.
"""

import json
import sqlite3
import sys
import time
from typing import Any

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

GIVEN = json.loads(sys.argv[1])
SPACE = ("mem", "admin")
BATCH = 1000


def item(number: int) -> dict[str, Any]:
    domain, task = GIVEN["domain"], GIVEN["task"]
    return {
        "text": f"User habit {number}: often inspects part {number % 977} of the package structure and its manifest",
        "domain": domain[number % len(domain)], "task": task[number // len(domain) % len(task)],
        "weight": number % 100 / 100,
    }  # fmt: skip


def main() -> None:
    store = SqliteStore(sqlite3.connect(GIVEN["path"], check_same_thread=False, isolation_level=None))
    store.setup()
    for first in range(0, GIVEN["items"], BATCH):
        store.batch([PutOp(SPACE, f"k{number}", item(number), index=False) for number in range(first, first + BATCH)])
    written = GIVEN["items"]
    for line in sys.stdin:
        asked = json.loads(line)
        reads: list[float] = []
        for number in range(asked["reads"]):
            labels = {name: GIVEN[name][number % len(GIVEN[name])] for name in ("domain", "task")}
            began = time.perf_counter()
            found = store.search(SPACE, filter=labels, limit=20)
            reads.append(1000 * (time.perf_counter() - began))
            assert len(found) == 20
        writes: list[float] = []
        for _ in range(asked["writes"]):
            written += 1
            began = time.perf_counter()
            store.put(SPACE, f"k{written}", item(written), index=False)
            writes.append(1000 * (time.perf_counter() - began))
        print(json.dumps({"reads": reads, "writes": writes}), flush=True)


main()
