"""`python -m bench.gateway DRILL`: what the gateway promises of budgets, audit, cancels and secrets, and what it costs."""

from __future__ import annotations

import argparse
import sys

from bench.gateway import audit, budgets, secrets, speed, stops

DRILLS = {"budgets": budgets, "audit": audit, "stops": stops, "secrets": secrets, "speed": speed}
"""Each module has `add_options(parser)` and `run(options) -> int` (0: everything that must hold held)."""


def main() -> int:
    """Runs one drill."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=(__doc__ or "").split("\n")[0])
    drills = parser.add_subparsers(dest="drill", required=True)
    for name, module in DRILLS.items():
        summary = (module.__doc__ or "").split("\n")[0]
        chosen = drills.add_parser(name, help=summary, description=summary)
        module.add_options(chosen)
        chosen.add_argument("--write", action="store_true", help="into the document and the results")
    options = parser.parse_args()
    return DRILLS[options.drill].run(options)


if __name__ == "__main__":
    sys.exit(main())
