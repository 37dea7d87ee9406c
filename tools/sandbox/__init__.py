"""Programs of a language, in the sandbox."""
