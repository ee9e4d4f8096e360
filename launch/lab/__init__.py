"""Clusters to try things with: simulated ones, temporary ones, drills, and what is judged of them."""
