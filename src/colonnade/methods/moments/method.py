"""One noisy moment matrix: every model of a task is fitted from it at no further cost."""

from __future__ import annotations

import math

from colonnade.federation.federation import released
from colonnade.methods.method import Method, NoiseSummary
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import moments_session
from colonnade.planning.cost import in_blocks


def noise_of(plan: MomentsPlan) -> float:
    """Of a released moment off the diagonal, in natural units: one person moves it by at most 1/m."""
    return math.sqrt(plan.total_mu) / plan.gamma**2


def people_for(plan: MomentsPlan) -> int:
    """With fewer people than these nothing stands out of the noise, whatever they are like.

    No direction of n rows has a moment above n, and one stands out of the noise s of a matrix of d columns only above
    s√d (docs/proofs/moment-rules.md). The smaller of two classes has at most n/2 people, counted above its own noise.
    """
    features = sum(encoder.width for encoder in plan.encoders.values())
    fewest = noise_of(plan) * math.sqrt(features)
    if all(label.one_hot for label in plan.labels.blocks):
        border = plan.label.constant(plan.gamma) / plan.gamma
        fewest = max(fewest, 2 * math.sqrt(2) * noise_of(plan) / border**2)
    return max(2, math.floor(fewest) + 1)


METHOD = Method(
    name="moments",
    title="one noisy moment matrix",
    tasks=("classification", "regression", "pca"),
    options=MomentsOptions,
    session=lambda _spec: moments_session,
    model=lambda _spec, results: next(
        (released(opened) for opened in results.values() if opened.matrix.size), None
    ),
    checks=("rows",),
    scores="released weights",
    resumable=False,
    pilots=lambda plan: in_blocks(plan, plan.block, "field"),
    noise=lambda plan: NoiseSummary(noise_of(plan), "a sum of products of two columns", people_for(plan)),
    kernel="products",
)
