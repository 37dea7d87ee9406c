"""One tools/call, from its arguments to its answer."""
