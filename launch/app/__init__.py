"""Agents and clusters of a Python program: what it says compiles to the governed files of a home."""
