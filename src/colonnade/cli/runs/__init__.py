"""Verbs about runs that have ended, however they ended."""
