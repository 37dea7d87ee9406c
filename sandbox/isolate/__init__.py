"""Python callables in confined child processes."""
