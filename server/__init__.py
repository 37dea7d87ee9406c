"""The server: configuration, pipeline, records, MCP app, transports, command line."""
