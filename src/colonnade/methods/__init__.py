"""Methods, each in a folder of its own."""
