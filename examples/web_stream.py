"""A web application that streams an answer while it is written. Needs hobus[http]. Shows: AsyncCluster, stream.

`uvicorn web_stream:app` serves it; started as a program it asks itself once. Prints: the events of that answer.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from hobus import Agent, AsyncCluster

clerk = Agent("clerk", instructions="Answer in one sentence.")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Keep the cluster up as long as the application."""
    async with await AsyncCluster.open(agents=[clerk]) as app.state.cluster:
        yield


async def answer(request: Request) -> StreamingResponse:
    """Server-sent events: pieces of the answer, as JSON texts; after a reset what was told counts no more."""
    cluster: AsyncCluster = request.app.state.cluster

    async def events() -> AsyncIterator[str]:
        async for piece in cluster.stream(request.query_params["q"]):
            yield f"event: {piece.kind}\ndata: {json.dumps(piece.text)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


app = Starlette(routes=[Route("/answer", answer)], lifespan=lifespan)


async def main() -> None:
    """Ask once, without a port."""
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        told = await client.get("http://app/answer", params={"q": "what can you do?"}, timeout=60)
        print(sorted({line.removeprefix("event: ") for line in told.text.splitlines() if line.startswith("event")}))


if __name__ == "__main__":
    asyncio.run(main())
