"""Models, releases and lists of people as files, ours and others'."""
