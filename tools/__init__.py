"""The tools: one a file, listed in catalogue.py."""
