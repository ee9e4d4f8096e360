"""`python -m bench.hostile ATTACK`: attacks on a running cluster, each of which prints what it did to the others."""

from __future__ import annotations

import sys

from bench.hostile import floods, fuzz
from bench.report import run_one_of

ATTACKS = {"floods": floods, "fuzz": fuzz}

if __name__ == "__main__":
    sys.exit(run_one_of(ATTACKS, program="bench.hostile", doc=__doc__))
