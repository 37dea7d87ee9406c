"""Structured data: JSON, YAML, TOML and CSV."""
