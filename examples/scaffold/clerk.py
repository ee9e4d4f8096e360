from pathlib import Path

from hobus import Agent, Cluster, Invocation, ToolFault, tool

NOTES = Path(__file__).with_name("notes.txt")


# A call may run again after a crash (idempotent), and changes nothing (writes).
@tool(idempotent=True, writes=False)
def clerk_notes() -> list[str]:
    """List all notes."""
    return NOTES.read_text().splitlines() if NOTES.exists() else []


# Without a word it is held to change something, and no call is made again by itself.
# `call.idempotency_key` is the same for every try of one call.
@tool
def clerk_note(text: str, *, call: Invocation) -> dict[str, int | str]:
    """Keep a note, and give its number."""
    if not text.strip():
        raise ToolFault("a note needs a text")  # the model is told this sentence
    with NOTES.open("a") as notes:
        notes.write(" ".join(text.split()) + "\n")
    return {"number": len(NOTES.read_text().splitlines()), "call": call.idempotency_key}


clerk = Agent(
    "clerk",
    instructions="You keep the user's notes. Look them up before you speak of them.",
    tools=[clerk_notes, clerk_note],
    approval=[clerk_note],  # its calls wait for a person
)

if __name__ == "__main__":
    with Cluster(agents=[clerk]) as cluster:
        print(cluster.ask("use clerk_notes {}").text)
