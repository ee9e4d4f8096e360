from langchain.agents import create_agent
from langchain_core.tools import tool


@tool
def weather(city: str) -> str:
    """Weather of a city, in one line."""
    return f"Sunny in {city}"


clerk = create_agent("openai:gpt-5-mini", tools=[weather], system_prompt="Answer in one sentence.")
asked = {"messages": [{"role": "user", "content": "Use weather for Paris"}]}
print(clerk.invoke(asked)["messages"][-1].content)
