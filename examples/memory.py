"""A statement that is remembered. Shows: remembered, hobus memory. Prints: the statement and its state."""

from hobus import Agent, Cluster

clerk = Agent("clerk", instructions="Answer in one sentence.")

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        first = cluster.ask("Always answer in one line.")
        # Messages are classified beside their answers, so this answer tells it, or the session's next one.
        said = first.remembered or cluster.ask("Hello", session_id=first.session_id).remembered
        assert said is not None
        print(said.statement, said.state)
        # Prompts show it from the next session on. To switch it off: hobus memory deactivate ART-… --reason "…".
