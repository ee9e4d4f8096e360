from agents import Agent, Runner, function_tool


@function_tool
def weather(city: str) -> str:
    """Weather of a city, in one line."""
    return f"Sunny in {city}"


clerk = Agent(name="clerk", instructions="Answer in one sentence.", tools=[weather], model="gpt-5-mini")
print(Runner.run_sync(clerk, "Use weather for Paris").final_output)
