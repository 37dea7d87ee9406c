"""Query files, one for each language: what counts as a definition in it."""
