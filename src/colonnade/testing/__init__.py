"""Suites that hold any channel, mechanism, event, learner or method to what this library relies on.

Each suite takes what you wrote, runs every law on fixed inputs and raises a `ConformanceError` that names the law,
what was expected and what was found. They need no test framework: call one from a test of yours. Passing a suite is
no proof: a suite cannot see whether a Rényi rule is true, only whether it could be (docs/contributing).
"""

from colonnade.testing.channels import check_channel
from colonnade.testing.laws import ConformanceError
from colonnade.testing.learners import check_learner
from colonnade.testing.mechanisms import check_event, check_mechanism
from colonnade.testing.methods import check_method

__all__ = [
    "ConformanceError",
    "check_channel",
    "check_event",
    "check_learner",
    "check_mechanism",
    "check_method",
]
