"""Background processes: start, read, write, list, end."""
