"""Settings for every test: no test passes or fails by the clock, nor by the luck of its examples.

`make test` draws the same examples on every machine; the studies (`make reproduce`) draw new ones at every run.
"""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("COLONNADE_EXAMPLES", "same"))
