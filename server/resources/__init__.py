"""MCP resources, and who is told that one changed."""
