"""What a turn's context is projected from: what is alive in its session, as fragments and then as text. Pure."""
