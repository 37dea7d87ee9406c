"""MCP over HTTP: streamable, and SSE."""
