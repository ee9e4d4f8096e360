"""`python -m bench.hostile ATTACK`: attacks on a running cluster, each of which prints what it did to the others."""

from __future__ import annotations

import argparse
import sys

from bench.hostile import abort, floods, fuzz

ATTACKS = {"abort": abort, "floods": floods, "fuzz": fuzz}
"""Each module has `add_options(parser)` and `run(options) -> int` (0: nobody but the attacker was harmed)."""


def main() -> int:
    """Runs one attack."""
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=(__doc__ or "").split("\n")[0])
    attacks = parser.add_subparsers(dest="attack", required=True)
    for name, module in ATTACKS.items():
        summary = (module.__doc__ or "").split("\n")[0]
        module.add_options(attacks.add_parser(name, help=summary, description=summary))
    options = parser.parse_args()
    return ATTACKS[options.attack].run(options)


if __name__ == "__main__":
    sys.exit(main())
