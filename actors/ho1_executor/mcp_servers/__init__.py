"""MCP servers as tools: one process per server and worker, which speaks MCP, and what the worker knows of it."""
