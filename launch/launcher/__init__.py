"""The launcher: starts the processes of a cluster, restarts them, takes them down; and how commands reach it."""
