"""Labels from gradients: while scores are small, the sign of a coefficient is the opposite of the label.

"Is Vertical Logistic Regression Privacy-Preserving?", criterion 4.2, theorems 4.1, 4.6, 4.10, E.3 and F.2. Nothing
depends on how many parties there are or how the other columns are split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks.success import Success, label_success
from colonnade.attacks.views import PartyView
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.paper.vertical_logistic import label_attack_steps, label_attack_steps_minimax

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# Coefficients smaller than this part of the largest are taken for 0, of which the sign says nothing.
_NOTHING = 1e-6
# Half of a batch is enumerated: 2^12 sums at most.
MOST_ENUMERATED = 24


@dataclass(frozen=True, eq=False)
class LabelAttack:
    """Success in each epoch on its own, and of the first verdict on every record."""

    by_epoch: tuple[Success, ...]
    first: Success
    guesses: Array
    safe_steps: PaperFigure | None
    determined: float


def recover_labels(view: PartyView, labels: Array, *, largest_score: float = 0.0) -> LabelAttack:
    """Criterion 4.2 on every batch; `labels` are the true ones, ±1, to score it with.

    In the piecewise approximation a coefficient of 0 says nothing, and nothing is guessed. `safe_steps` is T_ε, the
    number of steps for which the criterion cannot fail if no score is larger than `largest_score` at the start.
    """
    by_epoch = np.zeros((view.epochs, view.plan.rows))
    for look in view.looks:
        largest = float(np.max(np.abs(look.coefficients), initial=0.0))
        said = np.abs(look.coefficients) > _NOTHING * largest
        by_epoch[look.epoch, look.rows] = np.where(said, -np.sign(look.coefficients), 0.0)
    guesses = np.zeros(view.plan.rows)
    for verdicts in by_epoch:
        guesses = np.where(guesses == 0, verdicts, guesses)
    return LabelAttack(
        tuple(label_success(verdicts, labels) for verdicts in by_epoch),
        label_success(guesses, labels),
        guesses,
        safe_steps(view, largest_score),
        view.determined,
    )


def safe_steps(view: PartyView, largest_score: float) -> PaperFigure | None:
    """T_ε of the run, where the paper has one: Taylor or minimax coefficients, and scores below 2 at the start."""
    options = view.plan.options
    if options.approximation == "piecewise" or largest_score >= 2:
        return None
    known = label_attack_steps if options.approximation == "taylor" else label_attack_steps_minimax
    return known(options.step_size, largest_score=largest_score)


def labels_without_other_columns(view: PartyView, integers: Integers) -> Array:
    """Labels when their owner has no columns (theorem 4.1): ±1 from one sum Σ y·x a batch, even with one column.

    The attacker knows every score, so each batch tells it Σ y·x exactly; the integers y that fit are found by
    enumerating both halves of the batch. Unique is not quick: the work doubles with every two records, and batches
    of more than 24 are left alone unless the columns determine them. Records on which two solutions differ get 0.
    """
    guesses = np.zeros(view.plan.rows)
    for look, sums in zip(view.looks, view.diary.sums, strict=True):
        if look.determined:
            labels = (look.own_scores - look.coefficients) / 2.0
            guesses[look.rows] = np.where(guesses[look.rows] == 0, np.sign(labels), guesses[look.rows])
        elif len(look.rows) <= MOST_ENUMERATED:
            told = (view.features[look.rows].T @ look.own_scores - sums) / 2.0
            target = np.rint(told * view.plan.spec.gamma).astype(np.int64)
            agreed = signs_that_sum_to(integers[look.rows], target)
            guesses[look.rows] = np.where(guesses[look.rows] == 0, agreed, guesses[look.rows])
    return guesses


def signs_that_sum_to(vectors: Integers, target: Integers) -> Array:
    """The signs ±1 with Σ yᵢvᵢ = target, 0 where solutions differ; all 0 if there is none."""
    count = len(vectors)
    left, right = vectors[: count // 2], vectors[count // 2 :]
    left_signs, right_signs = _all_signs(len(left)), _all_signs(len(right))
    wanted: dict[bytes, list[int]] = {}
    for place, total in enumerate(target - left_signs @ left):
        wanted.setdefault(total.tobytes(), []).append(place)
    agreed: Array | None = None
    for place, total in enumerate(right_signs @ right):
        for other in wanted.get(total.tobytes(), ()):
            signs = np.concatenate([left_signs[other], right_signs[place]]).astype(np.float64)
            agreed = signs if agreed is None else np.where(agreed == signs, agreed, 0.0)
    return np.zeros(count) if agreed is None else agreed


def _all_signs(count: int) -> Integers:
    numbers = np.arange(1 << count, dtype=np.int64)
    return 2 * ((numbers[:, None] >> np.arange(count, dtype=np.int64)) & 1) - 1
