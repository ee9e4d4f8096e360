"""Tests of agents with pytest, on real processes and with a model that the test scripts: `hobus.testing`."""
