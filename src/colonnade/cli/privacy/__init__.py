"""The verbs of `colonnade privacy`."""
