"""The tools of orbiter's sandbox: filesystem and terminal."""
