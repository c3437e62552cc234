"""Every value with noise at its owner."""
