"""Linux: system calls by ctypes and what is built from them."""
