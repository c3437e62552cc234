"""One noisy moment matrix, from which many models are made."""
