"""Gradients under encryption between two owners."""
