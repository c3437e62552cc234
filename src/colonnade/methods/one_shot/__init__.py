"""Every column once, with noise."""
