"""The console: pages that show what the commands show, for a browser on this machine."""
