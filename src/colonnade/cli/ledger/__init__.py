"""The verbs of `colonnade ledger`."""
