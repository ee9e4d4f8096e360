"""Storms of two and three faults at once (R1b): `python -m bench.storms`."""
