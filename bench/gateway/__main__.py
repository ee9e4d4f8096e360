"""`python -m bench.gateway DRILL`: what the gateway promises of budgets, audit, cancels and secrets, and what it costs."""

from __future__ import annotations

import sys

from bench.gateway import audit, budgets, secrets, speed, stops
from bench.report import run_one_of

DRILLS = {"budgets": budgets, "audit": audit, "stops": stops, "secrets": secrets, "speed": speed}

if __name__ == "__main__":
    sys.exit(run_one_of(DRILLS, program="bench.gateway", doc=__doc__))
