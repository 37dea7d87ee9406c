"""Counting tokens, and cutting answers to the budget."""
