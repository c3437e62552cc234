"""Runs on the disk: their folders, what is in them, how they failed, and how one that was stopped is finished."""
