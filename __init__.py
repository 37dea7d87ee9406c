"""toolbox-mcp: developer tools for AI agents, behind guards and a sandbox."""
