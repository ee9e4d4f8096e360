"""Which sessions are here, how they are read, taken over and let go, and who may append to them."""
