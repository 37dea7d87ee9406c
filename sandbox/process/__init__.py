"""Starting a program, reading what it writes, and ending it with everything it started."""
