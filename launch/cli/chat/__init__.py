"""The terminal chat: what is shown while an answer is written, what a person types, and one turn after the other."""
