"""One noisy moment matrix: every model of a task is fitted from it at no further cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.learn.method import Asked, Method, NoOptions
from colonnade.learn.release import MomentRelease
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.moments_session import MomentsRequest

if TYPE_CHECKING:
    from colonnade.learn.federation import Federation


def train(federation: Federation, asked: Asked) -> MomentRelease:
    """Release the moments once."""
    return federation.moments(
        task=asked.task,
        epsilon=asked.epsilon,
        delta=asked.delta,
        accepted_delta=asked.accepted_delta,
        gamma=asked.gamma,
    )


def request(asked: Asked, alignment: Alignment) -> MomentsRequest:
    """What the parties compare."""
    return MomentsRequest(
        asked.task, asked.epsilon, asked.delta, asked.accepted_delta, asked.gamma, alignment
    )


METHOD = Method(
    name="moments",
    title="one noisy moment matrix",
    tasks=("classification", "regression", "pca"),
    options=NoOptions,
    train=train,
    request=request,
)
