"""Where the process of a job begins, under the name that kits have for it."""
