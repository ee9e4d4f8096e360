"""The gates G0 to G6: what must hold of the governed files before anything starts. Begin with `run.py`."""
