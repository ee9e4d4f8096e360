"""`python -m bench.hostile ATTACK`: attacks on a running cluster, each of which prints what it did to the others."""

from __future__ import annotations

import sys

from bench.hostile import fuzz
from bench.report import run_one_of

ATTACKS = {"fuzz": fuzz}

if __name__ == "__main__":
    sys.exit(run_one_of(ATTACKS, program="bench.hostile", doc=__doc__))
