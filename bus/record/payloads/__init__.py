"""What stands in body 0 of each kind of entry, by stream; a session's journal has its events instead."""
