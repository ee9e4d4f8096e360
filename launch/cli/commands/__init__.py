"""The commands of `hobus`, one family per file; each file is imported when its command runs."""
