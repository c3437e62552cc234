"""Each protocol as a trusted party would do it: the twin that the real one must equal, on integers."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from typed import there

from colonnade.data.table import AlignedTable
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.functional.protocol import integer_rows
from colonnade.methods.messages.plan import PrivateMessagesPlan
from colonnade.methods.messages.protocol import batch_order
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.protocols.evaluation import EvaluationPlan, own_phases


def ideal_moments(tables: Mapping[str, AlignedTable], plan: MomentsPlan) -> NDArray[np.object_]:
    """Σ z̃z̃ᵀ in Python integers, with everybody's rows in one place and no noise."""
    rows = []
    label: NDArray[np.int64] | None = None
    for owner in plan.group.owners:
        (block,) = tables[owner].blocks(plan.rows)
        rows.append(plan.quantizers[owner].quantize(block))
        if owner == plan.label_holder:
            values = block.labels if plan.spec.task != "pca" else (None,)
            label = np.concatenate(
                [
                    one.quantize(given, plan.gamma, rows=plan.rows)
                    for one, given in zip(plan.labels.blocks, values, strict=True)
                ],
                axis=1,
            )
    if plan.conditional:
        # The rows of each class beside those of the others: what is 0 for all of a class stays 0.
        one = plan.label.constant(plan.gamma)
        alone = np.concatenate([*rows, np.full((plan.rows, 1), one, dtype=np.int64)], axis=1)
        rows = [alone * (there(label)[:, [kind]] // one) for kind in range(plan.label.width)]
    elif label is not None:
        rows.append(label)
    joint = np.concatenate(rows, axis=1).astype(object)
    return np.asarray(joint.T @ joint)


def ideal_gradient(
    rows: NDArray[np.object_], weights: NDArray[np.object_], gamma: int
) -> NDArray[np.object_]:
    """Σ x̃(2γ² + ⟨w̃, x̃⟩ − 4γỹ) in Python integers, without noise; a row is (x̃, ỹ), the label last."""
    features, labels = rows[:, :-1], rows[:, -1]
    return np.asarray(features.T @ (2 * gamma**2 + features @ weights - 4 * gamma * labels))


def ideal_objective(tables: Mapping[str, AlignedTable], plan: FunctionalPlan) -> NDArray[np.object_]:
    """The coefficients of a quadratic objective in Python integers, block by block, without noise."""
    blocks = {owner: next(iter(tables[owner].blocks(plan.rows))) for owner in plan.group.owners}
    rows = [integer_rows(plan, owner, block) for owner, block in blocks.items()]
    joint = np.concatenate(rows, axis=1).astype(object)
    products = joint.T @ joint
    return np.concatenate([products[block.left, block.right] for block in plan.dissection.blocks])


def ideal_descent(
    tables: Mapping[str, AlignedTable], plan: PrivateMessagesPlan
) -> dict[str, NDArray[np.float64]]:
    """Every owner's weights after a run without noise or clipping, up to the rounding of floats."""
    parts = {owner: batch_order(table, plan) for owner, table in tables.items()}
    targets = parts[plan.active][1]
    if targets is None:
        raise ValueError("the active party's table holds no label")
    weights = {owner: np.zeros(rows.shape[1]) for owner, (rows, _) in parts.items()}
    for _, batch in plan.batches():
        scores = np.sum([rows[batch] @ weights[owner] for owner, (rows, _) in parts.items()], axis=0)
        residuals = plan.loss.residual(scores, targets[batch])
        for owner, (rows, _) in parts.items():
            stepped = weights[owner] - plan.rate(owner) / plan.batch * (rows[batch].T @ residuals)
            stepped = plan.penalty.step(stepped, plan.rate(owner), free=int(owner == plan.active))
            weights[owner] = stepped / max(1.0, float(np.linalg.norm(stepped)) / plan.radius)
    return weights


def ideal_evaluation(
    terms: Mapping[str, NDArray[np.float64]],
    labels: NDArray[np.float64] | NDArray[np.int64],
    plan: EvaluationPlan,
) -> NDArray[np.object_]:
    """Counts and sums of phases, head by head, person by person in Python integers, without noise."""
    half = 1 + plan.harmonics
    found = []
    dealt = {owner: own_phases(owner, terms[owner], labels, plan).tolist() for owner in plan.group.owners}
    start = 0
    for place, head in enumerate(plan.heads):
        for _ in range(head.sums):
            sums = [0] * (2 * half)
            for person in range(len(labels)):
                mine = dealt[plan.holder][person][start : start + 2 * half]
                for phasor in range(half):
                    real, imaginary = mine[phasor], mine[phasor + half]
                    for owner in plan.others:
                        theirs = dealt[owner][person][place * 2 * half :][: 2 * half]
                        c, d = theirs[phasor], theirs[phasor + half]
                        real, imaginary = real * c - imaginary * d, real * d + imaginary * c
                    sums[phasor] += real
                    sums[phasor + half] += imaginary
            start += 2 * half
            # Frequency 0 has no imaginary part, and of everybody together it would only count them.
            found += [*sums[0 if head.counted else 1 : half], *sums[half + 1 :]]
    return np.array(found, dtype=object)
