"""An evaluation of an agent with pydantic-evals. Shows: an agent as its task. Prints: how many cases passed."""

import asyncio

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains

from hobus import Agent, AsyncCluster, tool


@tool(idempotent=True, writes=False)
def weather(city: str) -> str:
    """Weather of a city, in one line."""
    return f"Sunny in {city}"


clerk = Agent("clerk", instructions="Answer in one sentence.", tools=[weather])
cities = Dataset(
    name="cities",
    cases=[
        Case(name=city, inputs=f"Use weather for {city}", evaluators=(Contains(city),)) for city in ("Rome", "Oslo")
    ],
)


async def main() -> None:
    """Each case in a session of its own."""
    async with await AsyncCluster.open(agents=[clerk]) as cluster:

        async def answered(text: str) -> str:
            return (await cluster.ask(text)).text

        report = await cities.evaluate(answered, progress=False)
    passed = sum(all(one.value for one in case.assertions.values()) for case in report.cases)
    print(f"{passed} of {len(report.cases)} passed")


if __name__ == "__main__":
    asyncio.run(main())
