"""Five papers as notebooks: `python -m notebooks` runs `sources/*.py` and writes them here with what they print."""
