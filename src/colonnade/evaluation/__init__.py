"""Scores of people whom nobody has whole, and how good a model is on people it has not seen."""
