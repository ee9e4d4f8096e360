"""Tools of an MCP server; this file is the server, too. Needs hobus[mcp]. Shows: mcpServers. Prints: a result."""

import json
import sys
import tempfile
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from hobus import Agent, Cluster

server = MCPServer("library")


@server.tool()
def find(title: str) -> str:
    """Find a book."""
    return f"{title} is on shelf 7"


clerk = Agent("clerk", instructions="Answer in one sentence.", tools=["library__find"])

if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
        sys.exit()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        (home / "config").mkdir(parents=True)
        settings = {
            "mcpServers": {"library": {"command": sys.executable, "args": [__file__, "serve"]}},
            "bus": {"service_grace_ms": 20_000},  # so long the first question waits for the server
        }
        (home / "config" / "admin_config.json").write_text(json.dumps(settings))
        with Cluster(home, agents=[clerk]) as cluster:
            print(cluster.ask("Use library__find for Dune").text)
