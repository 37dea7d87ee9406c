"""What may be reached over the network: addresses, URLs, headers."""
