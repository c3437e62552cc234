"""`colonnade demo`: everything at once on made-up people."""
