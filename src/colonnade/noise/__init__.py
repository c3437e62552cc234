"""Exact integer noise: samplers and the mechanisms made of them."""
