"""What is learned of turns: signals for memory, and lines made of them."""
