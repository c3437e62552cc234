"""What methods for generalised linear models share."""
