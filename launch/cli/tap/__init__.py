"""What `hobus tap` does with the frames that it gets: knows their turns, accounts for them, shows and keeps them."""
