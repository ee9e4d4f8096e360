"""Attacks on a running cluster, by command: `python -m bench.hostile --help`."""
