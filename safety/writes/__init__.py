"""Changing files and folders so that either the old or the new content is there."""
