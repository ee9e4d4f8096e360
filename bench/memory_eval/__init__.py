"""How well memory's gate tells habits from noise: synthetic streams of turns whose habits are known."""
