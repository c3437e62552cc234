"""The formulas of five papers, as printed, for comparison. None of them is a guarantee; each says why."""
