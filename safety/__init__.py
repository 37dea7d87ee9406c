"""What may happen: errors, policy, guards on parameter types, the path jail."""
