"""Which version of the software this is."""

__version__ = "0.1.0"
