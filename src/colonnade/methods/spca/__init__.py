"""Principal components by the method of its paper."""
