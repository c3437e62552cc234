"""Verbs of a federation between machines, and of whoever takes part in one."""
