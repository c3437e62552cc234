"""Attacks from the literature on what an owner sees of encrypted gradients, and how well each did.

All but averaging are of "Is Vertical Logistic Regression Privacy-Preserving?"; docs/attacks.md says what each needs and
why it works. An owner that follows the protocol has its diary, its own columns and the public plan. Each batch gives it
one equation for each of its own columns: Σ f·x over the batch, with one unknown coefficient f a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from colonnade.crypto.paillier import Ciphertexts
from colonnade.crypto.paillier_vectors import Fields, packed
from colonnade.methods.encrypted.plan import EncryptedPlan, coefficients
from colonnade.methods.encrypted.protocol import OwnerTranscript
from colonnade.privacy.paper import PaperFigure, label_attack_steps, label_attack_steps_minimax
from colonnade.report.record import SuccessRecord

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Success:
    """So many hits among so many trials; `chance` is the share of hits that luck would give."""

    hits: float
    trials: int
    chance: float

    @property
    def rate(self) -> float:
        return self.hits / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson interval at 95 %, as if trials were independent."""
        tail = (1 - CONFIDENCE) / 2
        hits, misses = self.hits, self.trials - self.hits
        low = float(beta.ppf(tail, hits, misses + 1)) if hits > 0 else 0.0
        high = float(beta.ppf(1 - tail, hits + 1, misses)) if misses > 0 else 1.0
        return low, high

    @property
    def record(self) -> SuccessRecord:
        low, high = self.interval
        values = {"rate": self.rate, "low": low, "high": high, **vars(self)}
        return SuccessRecord.model_validate(values)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.rate:.3f} ({low:.3f} to {high:.3f}), by chance {self.chance:.3f}"


def label_success(guesses: NDArray[np.float64], labels: NDArray[np.float64]) -> Success:
    """0 is not a guess and never a hit; chance is that of the same guesses of labels they know nothing of."""
    positive = float(np.mean(labels > 0))
    chance = float(np.mean(guesses > 0)) * positive + float(np.mean(guesses < 0)) * (1 - positive)
    return Success(float(np.sum(guesses == labels)), len(labels), chance)


def value_success(
    guesses: NDArray[np.float64], values: NDArray[np.float64], *, tolerance: float = 0.01
) -> Success:
    """Right to within a part of their spread, NaN is not a guess; chance is that of a guess of another number."""
    guesses, values = guesses.ravel(), values.ravel()
    near = tolerance * float(np.std(values) or 1.0)
    hits = int(np.sum(np.abs(guesses - values) <= near))
    shifted = [
        np.abs(guesses - np.concatenate((values[-turn:], values[:-turn]))) <= near
        for turn in range(1, min(len(values), 50))
    ]
    return Success(hits, len(values), float(np.mean(shifted)) if shifted else 0.0)


Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Look:
    """One batch as the attacker saw it: whose records, their coefficients as far as they follow, its own scores."""

    epoch: int
    rows: Integers
    coefficients: Array
    own_scores: Array
    determined: bool


@dataclass(frozen=True, eq=False)
class OwnerView:
    """One owner's side of a run. `features` are its own columns, `labels` its own if it holds them."""

    plan: EncryptedPlan
    owner: str
    diary: OwnerTranscript
    features: Array
    labels: Array | None = None

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        looks = []
        for number, (rows, weights, sums) in enumerate(
            zip(self.diary.batches, self.diary.weights, self.diary.sums, strict=True)
        ):
            mine = self.features[rows]
            own = mine @ weights
            observed = self.diary.scores[number]
            if observed.size and self.labels is not None:
                # This owner reads the others' scores and computes the coefficients itself.
                values = coefficients(self.plan.options.approximation, own + observed, self.labels[rows])
                determined = True
            else:
                solved, _, rank, _ = np.linalg.lstsq(mine.T, sums, rcond=None)
                values, determined = np.asarray(solved, dtype=np.float64), int(rank) == len(rows)
            epoch = number // self.plan.schedule.steps_per_epoch
            looks.append(Look(epoch, rows, values, own, determined))
        return tuple(looks)

    @property
    def determined(self) -> float:
        return float(np.mean([look.determined for look in self.looks]))


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


def recover_labels(view: OwnerView, labels: Array, *, largest_score: float = 0.0) -> LabelAttack:
    """Criterion 4.2 on every batch; `labels` are the true ones, ±1, to score it with.

    `safe_steps` is T_ε, the number of steps for which the criterion cannot fail if no score is larger at the start.
    """
    by_epoch = np.zeros((view.plan.schedule.epochs, view.plan.rows))
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


def safe_steps(view: OwnerView, largest_score: float) -> PaperFigure | None:
    """T_ε of the run, where the paper has one: Taylor or minimax coefficients, and scores below 2 at the start."""
    options = view.plan.options
    if options.approximation == "piecewise" or largest_score >= 2:
        return None
    known = label_attack_steps if options.approximation == "taylor" else label_attack_steps_minimax
    return known(options.step_size, largest_score=largest_score)


def labels_without_other_columns(view: OwnerView, integers: Integers) -> Array:
    """Labels when their owner has no columns (theorem 4.1), from one sum Σ y·x a batch, even with one column.

    The integers y that fit are found by enumerating both halves of the batch: the work doubles with every two records.
    Records on which two solutions differ get 0.
    """
    guesses = np.zeros(view.plan.rows)
    for look, sums in zip(view.looks, view.diary.sums, strict=True):
        if look.determined:
            labels = (look.own_scores - look.coefficients) / 2.0
            guesses[look.rows] = np.where(guesses[look.rows] == 0, np.sign(labels), guesses[look.rows])
        elif len(look.rows) <= MOST_ENUMERATED:
            observed = (view.features[look.rows].T @ look.own_scores - sums) / 2.0
            target = np.rint(observed * view.plan.spec.gamma).astype(np.int64)
            agreed = signs_that_sum_to(integers[look.rows], target)
            guesses[look.rows] = np.where(guesses[look.rows] == 0, agreed, guesses[look.rows])
    return guesses


def signs_that_sum_to(vectors: Integers, target: Integers) -> Array:
    """The signs ±1 with Σ yᵢvᵢ = target, 0 where solutions differ; all 0 if there is none."""
    count = len(vectors)
    left, right = vectors[: count // 2], vectors[count // 2 :]
    left_signs, right_signs = _all_signs(len(left)), _all_signs(len(right))
    places: dict[bytes, list[int]] = {}
    for place, total in enumerate(target - left_signs @ left):
        places.setdefault(total.tobytes(), []).append(place)
    agreed: Array | None = None
    for place, total in enumerate(right_signs @ right):
        for other in places.get(total.tobytes(), ()):
            signs = np.concatenate([left_signs[other], right_signs[place]]).astype(np.float64)
            agreed = signs if agreed is None else np.where(agreed == signs, agreed, 0.0)
    return np.zeros(count) if agreed is None else agreed


def _all_signs(count: int) -> Integers:
    numbers = np.arange(1 << count, dtype=np.int64)
    return 2 * ((numbers[:, None] >> np.arange(count, dtype=np.int64)) & 1) - 1


# A score smaller than this part of the largest of all gives no ratio that can be trusted.
_WEAK = 1e-3


@dataclass(frozen=True, eq=False)
class ForeignScores:
    """One batch of the others' scores, and the coefficients that moved the weights after it."""

    rows: Integers
    scores: Array
    coefficients: Array


def foreign_scores(view: OwnerView, labels: Array) -> tuple[ForeignScores, ...]:
    """For an attacker who has the labels, its own or recovered."""
    # A coefficient in the diary is this many times the gradient's, with the Taylor approximation.
    scale = 4.0 if view.plan.splits else 1.0
    scores = []
    for look, observed in zip(view.looks, view.diary.scores, strict=True):
        if observed.size:
            scores.append(ForeignScores(look.rows, observed, look.coefficients))
        else:
            others = look.coefficients - look.own_scores + 2.0 * labels[look.rows]
            scores.append(ForeignScores(look.rows, others, look.coefficients / scale))
    return tuple(scores)


def recover_column(scores: tuple[ForeignScores, ...], *, rows: int, step: float) -> Array:
    """The values of another owner's only column, up to one sign; NaN where no chain of batches reaches.

    Scores of one batch are in the ratio of the values; the size follows from how far a score moved between two looks
    (equation (13)), here by least squares over all of them.
    """
    ratios = _ratios(scores, rows)
    known = np.isfinite(ratios)
    filled = np.where(known, ratios, 0.0)
    last: dict[int, tuple[float, float]] = {}
    moved, expected = [], []
    travelled = 0.0
    for batch in scores:
        for row, score in zip(batch.rows.tolist(), batch.scores.tolist(), strict=True):
            if row in last and known[row]:
                before, at = last[row]
                moved.append(score - before)
                expected.append(ratios[row] * (travelled - at))
            last[row] = (score, travelled)
        travelled -= step * float(batch.coefficients @ filled[batch.rows])
    if not moved:
        return np.full(rows, np.nan)
    square = float(np.dot(moved, expected) / (np.dot(expected, expected) or 1.0))
    size = np.sqrt(square) if square > 0 else np.nan
    return np.asarray(ratios * size)


def _ratios(scores: tuple[ForeignScores, ...], rows: int) -> Array:
    """Values over that of one record, by passing from batch to batch; NaN where none leads there."""
    ratios = np.full(rows, np.nan)
    strongest = max(scores, key=lambda batch: float(np.max(np.abs(batch.scores), initial=0.0)))
    ratios[strongest.rows[int(np.argmax(np.abs(strongest.scores)))]] = 1.0
    least = _WEAK * float(np.max(np.abs(strongest.scores), initial=0.0))
    changed = True
    while changed:
        changed = False
        for batch in scores:
            there = np.isfinite(ratios[batch.rows])
            links = there & (np.abs(batch.scores) > least)
            if not links.any() or there.all():
                continue
            # The weight behind a batch of scores, from its most trustworthy record.
            best = np.flatnonzero(links)[int(np.argmax(np.abs(batch.scores[links])))]
            weight = batch.scores[best] / ratios[batch.rows[best]]
            ratios[batch.rows[~there]] = batch.scores[~there] / weight
            changed = True
    return ratios


def recover_inner_products(
    scores: tuple[ForeignScores, ...], *, rows: int, step: float, starts_at_zero: bool
) -> Array:
    """⟨xᵢ, xⱼ⟩ for all pairs of records, by least squares over every two successive looks at a record.

    n(n + 1)/2 unknowns and n equations an epoch need about n/2 epochs; weights that start at zero are one look more.
    """
    pairs = np.full((rows, rows), -1, dtype=np.int64)
    upper = np.triu_indices(rows)
    pairs[upper] = np.arange(len(upper[0]))
    pairs = np.maximum(pairs, pairs.T)
    walked = np.zeros(rows)
    last = {row: (0.0, np.zeros(rows)) for row in range(rows)} if starts_at_zero else {}
    equations, moved = [], []
    for batch in scores:
        for row, score in zip(batch.rows.tolist(), batch.scores.tolist(), strict=True):
            if row in last:
                before, at = last[row]
                equation = np.zeros(len(upper[0]))
                np.add.at(equation, pairs[row], walked - at)
                equations.append(equation)
                moved.append(score - before)
            last[row] = (score, walked.copy())
        walked[batch.rows] -= step * batch.coefficients
    products, *_ = np.linalg.lstsq(np.array(equations), np.array(moved), rcond=None)
    return np.asarray(products[pairs])


@dataclass(frozen=True)
class Averaged:
    """Success after 1, 2, … looks, and Φ(|f|√k/σ) beside it, which noise that is not clipped would give."""

    by_looks: tuple[Success, ...]
    predicted: tuple[float, ...]


def average_signs(messages: Sequence[Array], labels: Array, *, sigma: float) -> Averaged:
    """`messages` has one array an epoch in the order of the records; |f| is 2 while weights are small."""
    total = np.zeros(len(labels))
    successes, predicted = [], []
    for looks, message in enumerate(messages, start=1):
        total = total + message
        # Clipped messages often cancel exactly; then the last look decides.
        successes.append(label_success(-np.sign(np.where(total == 0, message, total)), labels))
        predicted.append(predicted_success(2.0, sigma, looks))
    return Averaged(tuple(successes), tuple(predicted))


def predicted_success(size: float, sigma: float, looks: int) -> float:
    return float(norm.cdf(size * np.sqrt(looks) / sigma))


class PackedQuestion:
    """Asks for the others' number of every record; `captured` holds, batch by batch, what was read."""

    def __init__(self, plan: EncryptedPlan, receiver: str) -> None:
        self._questions = plan.questions(receiver)
        self._width = plan.width(receiver)
        # Wide enough for a number and its sign, or a field would reach its neighbour.
        number = sum(plan.extent(owner) for owner in plan.relay(receiver)).bit_length() + 2
        self.fields = Fields(number, Fields.most(number, plan.options.keys.bits))
        self._integers: Integers = np.zeros((0, self._width), dtype=np.int64)
        self.captured: list[tuple[int, ...]] = []

    @property
    def reads(self) -> int:
        return self._questions * self.fields.count

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        self._integers = integers
        ciphertexts = Ciphertexts(numbers.key, numbers.values[: self.reads])
        requested = packed(ciphertexts, self.fields).values
        # A short batch leaves questions over; the neutral ciphertext holds 0.
        return Ciphertexts(numbers.key, requested + (1,) * (self._questions - len(requested)))

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """The sums it should have asked for, computed from what it read, so that the run goes on unnoticed."""
        values = [value for answer in answers for value in self.fields.unpack(answer)][:records]
        self.captured.append(tuple(values))
        return tuple(
            sum(int(x) * value for x, value in zip(column, values, strict=False))
            for column in self._integers.T
        )


class WideQuestion:
    """Claims a column for every record: sends each number back by itself to be decrypted."""

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        return numbers

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        return ()
