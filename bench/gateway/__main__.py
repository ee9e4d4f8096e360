"""`python -m bench.gateway DRILL`: what the gateway promises of budgets, audit, cancels and secrets, and what it costs."""

from __future__ import annotations

import sys

from bench.gateway import audit, budgets, secrets, speed, stops
from bench.report import add_values, arguments

DRILLS = {"budgets": budgets, "audit": audit, "stops": stops, "secrets": secrets, "speed": speed}

if __name__ == "__main__":
    parser = arguments(__doc__)
    names = parser.add_subparsers(dest="name", required=True)
    for name, drill in DRILLS.items():
        chosen = names.add_parser(name, help=drill.__doc__.split("\n")[0])
        add_values(chosen, {**drill.OPTIONS, "write": (False, "into the document and the results")})
    given = parser.parse_args()
    sys.exit(DRILLS[given.name].run(given))
