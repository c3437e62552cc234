"""Noisy gradients of batches that nobody sees."""
