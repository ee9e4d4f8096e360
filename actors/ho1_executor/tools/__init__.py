"""Tools: what they are, the built-in ones, and the two ways to run them."""
