"""The functional mechanism: a noisy objective."""
