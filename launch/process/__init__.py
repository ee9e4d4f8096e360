"""What every process of a cluster runs: its role's actor, wired to its connections, until its launcher is gone."""
