"""Packages of governed assets: made and signed, judged, installed and taken away. Begin with `installing.py`."""
