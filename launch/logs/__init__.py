"""Log files: how a process writes its own, and how they are read, chosen and followed."""
