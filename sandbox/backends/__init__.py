"""The ways to confine a program, behind one protocol."""
