"""A statement that is remembered. Shows: remembered, hobus memory. Prints: the statement and its state."""

from hobus import Agent, Cluster

clerk = Agent("clerk", instructions="Answer in one sentence.")

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        said = cluster.ask("Always answer in one line.").remembered
        assert said is not None
        print(said.statement, said.state)
        # Prompts show it from the next session on. To switch it off: hobus memory deactivate ART-… --reason "…".
