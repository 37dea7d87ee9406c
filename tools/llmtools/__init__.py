"""The tools of llmtools-go, by their slugs."""
