"""Changing files."""
