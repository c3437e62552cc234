"""Organisations that learn together, in one process or each at its own site."""
