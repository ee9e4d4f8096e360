"""An agent that answers. Shows: Agent, Cluster, ask. Prints: who answers, the embedded offline model."""

from hobus import Agent, Cluster

clerk = Agent("clerk", instructions="Answer in one sentence.")

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        print(cluster.ask("Why is the sky blue?").text.partition(":")[0])
