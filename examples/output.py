"""An answer that a program reads. Shows: output, parse. Prints: a Ticket with placeholders (offline model)."""

from typing import Literal

from pydantic import BaseModel

from hobus import Agent, Cluster


class Ticket(BaseModel):
    """What becomes of a complaint."""

    title: str
    urgency: Literal["low", "high"]


clerk = Agent("clerk", instructions="Make a ticket of the complaint.", output=Ticket)

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        ticket = clerk.parse(cluster.ask("The printer is on fire"))
        print(type(ticket).__name__, ticket.urgency)
