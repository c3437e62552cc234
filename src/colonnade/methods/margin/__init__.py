"""Margin: noisy margin descent, whose gradient is one inner product in shares."""
