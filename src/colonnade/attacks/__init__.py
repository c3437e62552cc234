"""Attacks from the literature, run against recorded transcripts of our own protocols."""
