"""Parties, groups and channels: who runs, with whom, and how they talk."""
