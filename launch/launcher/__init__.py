"""The launcher: starts the processes of a cluster, restarts them, takes them down; and how commands reach it."""

import importlib

importlib.import_module("hobus.launch.process")  # before structlog: it decides what of it is loaded
