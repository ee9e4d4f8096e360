"""Turns and streams that wait for slow models: `python -m bench.waiting`."""
