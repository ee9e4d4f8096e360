from pydantic_ai import Agent

agent = Agent("openai:gpt-5-mini", instructions="Answer in one sentence.")


@agent.tool_plain
def weather(city: str) -> str:
    """Weather of a city, in one line."""
    return f"Sunny in {city}"


print(agent.run_sync("Use weather for Paris").output)
