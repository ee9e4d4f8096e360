"""One turn, from the message to the recorded answer."""
