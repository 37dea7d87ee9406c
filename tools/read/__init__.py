"""Reading and searching files."""
