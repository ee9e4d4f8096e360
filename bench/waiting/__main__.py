"""P22, P23, R13: turns, tools and streams that wait for slow models, overload, and people who harm others.

Everything as shipped over HTTP (`hobus up --http`), all clients with one key, in a new cluster each. Turns ask an agent
of one's own and it the embedded model, which thinks for 5 s a call, twice, and a tool once (beside the first call it
classifies the message), beside LangGraph with AsyncSqliteSaver in one process. Their memory is the most by which all
processes grew (PSS) while they waited, looked at once in a model call, from a cluster that has answered 320 quick
turns, sixteen at once. Streams come from an HTTP provider of their own, beside LiteLLM's proxy and the provider alone,
asked by the same clients. Peers get environments of their own (`bench/peers`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from bench.report import arguments, machine, rows_table, told
from bench.waiting.hostile import hostile
from bench.waiting.rows import SMALL, Row, Sizes, overload, streams, tools, turns

ROWS = {"turns": turns, "tools": tools, "streams": streams, "overload": overload, "hostile": hostile}


def measure(names: Sequence[str], sizes: Sizes, *, has_peer: bool) -> list[Row]:
    """Row after row; each is said as soon as it is there."""
    found: list[Row] = []
    for name in names:
        for row in ROWS[name](sizes, has_peer=has_peer):
            print(row, file=sys.stderr, flush=True)
            found.append(row)
    return found


def main() -> int:
    """The exit code: 1 where a goal is missed."""
    rows_named, small = (",".join(ROWS), "some of them, by commas"), (False, "small sizes: does it run?")
    parser = arguments(__doc__, write=True, json=True, no_peer=True, rows=rows_named, small=small)
    given = parser.parse_args()
    names = given.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no row {unknown[0]}; there are {', '.join(ROWS)}")
    before = machine()
    rows = measure(names, SMALL if given.small else Sizes(), has_peer=not (given.no_peer or given.small))
    figures, how = {"rows": [asdict(row) for row in rows]}, "one key, a new cluster each row"
    told(given, before, figures, rows_table(rows), name="waiting", how=how)
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
