"""The command `hobus`: its commands, the terminal chat, and what `hobus tap` shows."""
