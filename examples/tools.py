"""Typed tools, sync and async, one of them idempotent. Shows: tool. Prints: their results."""

from dataclasses import dataclass
from enum import Enum

from hobus import Agent, Cluster, tool


class Unit(Enum):
    """Of a temperature."""

    CELSIUS = "celsius"
    KELVIN = "kelvin"


@dataclass
class Forecast:
    """What a tool brings may be an object."""

    city: str
    degrees: float


@tool(idempotent=True, writes=False)
def forecast(city: str, unit: Unit = Unit.CELSIUS) -> Forecast:
    """Forecast for a city."""
    return Forecast(city, 20.0 if unit is Unit.CELSIUS else 293.15)


@tool
async def book(city: str, nights: int = 1) -> str:
    """Book a hotel in a city."""
    return f"{nights} night in {city} is booked"


clerk = Agent("clerk", instructions="Answer in one sentence.", tools=[forecast, book])

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        print(cluster.ask("Use forecast for Paris").text)
        print(cluster.ask("Use book for Paris").text)
