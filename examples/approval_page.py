"""A call that waits for a person, approved on a web page. Needs hobus[http]. Shows: approval, sessions, approve.

`uvicorn approval_page:app` serves it; started as a program it asks, looks at its page and approves. Prints: the call
that waited, and the answer.
"""

import asyncio
import html
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from hobus import Agent, AsyncCluster, tool


@tool
def pay(to: str) -> str:
    """Pay an invoice."""
    return f"paid {to}"


clerk = Agent("clerk", instructions="Answer in one sentence.", tools=[pay], approval=[pay])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Keep the cluster up as long as the application."""
    async with await AsyncCluster.open(agents=[clerk]) as app.state.cluster:
        yield


async def page(request: Request) -> HTMLResponse:
    """Show what waits, with a button each."""
    rows = [
        f"<form method=post action='/{one.session_id}/{call.call_id}'>{html.escape(call.tool_id)} "
        f"{html.escape(str(call.arguments))} <button>approve</button></form>"
        for one in await request.app.state.cluster.sessions()
        for call in one.held_calls
    ]
    return HTMLResponse("<h1>Waiting</h1>" + "".join(rows))


async def approve(request: Request) -> RedirectResponse:
    """Run the call, bound to what was shown, tool and arguments."""
    await request.app.state.cluster.approve(request.path_params["session"], request.path_params["call"])
    return RedirectResponse("/", status_code=303)


app = Starlette(
    routes=[Route("/", page), Route("/{session}/{call}", approve, methods=["POST"])],
    lifespan=lifespan,
)


async def main() -> None:
    """Ask, look, approve."""
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        asking = asyncio.create_task(app.state.cluster.ask("Use pay for Dune & Sons"))
        while "<form" not in (shown := (await client.get("http://app/")).text):
            await asyncio.sleep(0.1)
        action = shown.partition("action='")[2].partition("'")[0]
        print(shown.partition(f"{action}'>")[2].partition(" <button")[0])
        await client.post(f"http://app{action}")
        print((await asking).text)


if __name__ == "__main__":
    asyncio.run(main())
