"""Settings for every test: no test passes or fails by the clock."""

from hypothesis import settings

settings.register_profile("colonnade", deadline=None)
settings.load_profile("colonnade")
