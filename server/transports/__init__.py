"""How clients reach the server: pipes, streamable HTTP and HTTP with server-sent events."""
