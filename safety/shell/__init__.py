"""What a shell line runs, and whether that is refused."""
