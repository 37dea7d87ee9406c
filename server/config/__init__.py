"""Settings: where they come from, what they mean, how they are checked."""
