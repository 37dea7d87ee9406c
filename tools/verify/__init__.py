"""Checking a project with its own tools: tests, linters, bundler."""
