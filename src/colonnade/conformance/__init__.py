"""Suites that hold any channel, mechanism, event, learner or method to what this library relies on.

Each suite takes what you wrote, runs every law on fixed inputs and raises a `ConformanceError` that names the law,
what was expected and what was found. They need no test framework: call one from a test of yours. Passing a suite is
no proof: a suite cannot see whether a Rényi rule is true, only whether it could be (docs/contributing).
"""

from colonnade.conformance.channels import check_channel
from colonnade.conformance.events import check_event
from colonnade.conformance.learners import check_learner
from colonnade.conformance.mechanisms import check_mechanism
from colonnade.conformance.methods import check_method
from colonnade.conformance.verdict import ConformanceError

__all__ = [
    "ConformanceError",
    "check_channel",
    "check_event",
    "check_learner",
    "check_mechanism",
    "check_method",
]
