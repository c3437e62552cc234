"""The papers' own formulas on trial: which of them an audit catches. What has no noise to draw: docs/soundness.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.lab.experiments import Array, AuditClaim, Drawn
from colonnade.lab.people import People, corner, mixed, table_of, together
from colonnade.methods.encrypted.plan import EncryptedOptions, EncryptedPlan
from colonnade.methods.encrypted.protocol import OwnerState, ideal_descent
from colonnade.methods.spca.method import paper_noise
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.numbers.rounding import stochastic
from colonnade.privacy import paper as formulas
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import Randomness, below
from colonnade.runtime.party import Group

# The paper's own settings: 16 coordinates, one use; coins of probability 1/2 ± 1/20, four a party, two parties.
_TRIALS, _BETA, _COORDINATES, _PARTIES = 4, 0.05, 16, 2
_ROWS = 4
_SCALE = 1 << 12


@dataclass(frozen=True)
class Variant:
    """`draws` are how many on either side the audit takes; of what is `hidden` they show no more than is claimed."""

    paper: str
    claim: str
    why: str
    drawn: Drawn
    draws: int
    hidden: bool = False


def variants() -> tuple[Variant, ...]:
    """Every claim of the papers whose noise can be drawn, in the order of docs/soundness.md."""
    return (
        Variant(
            "HDP-VFL",
            "the classical Gaussian σ at ε = 10, δ = 0.1",
            "it is proved below ε = 1 only, and at ε = 10 adds too little noise",
            _classical(10.0, 0.1),
            4_000_000,
        ),
        Variant(
            "PBM-VFL",
            "Theorem 6.1 with C₀ = 1, one party's value in one row",
            "the exact divergence is 8 to 15 times larger",
            _poisson_binomial(rows=1, known=False),
            40_000,
        ),
        Variant(
            "PBM-VFL",
            "Theorem 6.1 with C₀ = 1, to the other party, which knows its own count",
            "a party that knows its count faces one contributor fewer",
            _poisson_binomial(rows=1, known=True),
            40_000,
        ),
        Variant(
            "PBM-VFL",
            "feature privacy composes in parallel over rows",
            "one party's columns change every row, and losses add up",
            _poisson_binomial(rows=_ROWS, known=False),
            20_000,
        ),
        Variant(
            "PBM-VFL",
            "masks from [0, b) added over the integers hide perfectly",
            "large and small sums occur for one value only",
            _integer_masks(),
            20_000,
        ),
        Variant(
            "Is Vertical Logistic Regression Privacy-Preserving?",
            "the noise of (71) and (72)",
            "weights follow noise that has no bound, and so do the scores that are sent",
            _encrypted_paper(),
            400,
        ),
        Variant(
            "SPCA",
            "equation (13), how long a rounded row can be",
            "the claim breaks for roundings of probability 1e-38; the counterexample is a row (docs/soundness.md), and "
            "the audit shows no more than is claimed",
            _spca(),
            4_000,
            hidden=True,
        ),
        Variant(
            "Functional mechanism",
            "Theorem 2, ε of one party's part, linear",
            "products across parties are counted once, and each is there twice",
            _functional_part(),
            4_000_000,
        ),
    )


def _claimed(observer: Server | PartyView, unit: str, epsilon: float, delta: float) -> AuditClaim:
    about = f"{observer.sentence}, as the paper has it"
    return AuditClaim(observer.name, unit, about, epsilon, delta, proved=False)


def _classical(epsilon: float, delta: float) -> Drawn:
    """One message of a record at the bound of its score, +k or −k, with the noise of Lemmas 1 and 3."""
    sensitivity = formulas.passive_sensitivity(
        batch=569, epochs=1, steps=1, radius=1.0, step_size=1e-4, lipschitz=1.0
    ).value
    sigma = formulas.classical_sigma(epsilon, delta, sensitivity=sensitivity).value
    noise = DiscreteGaussianNoise(Fraction(sigma * _SCALE) ** 2)

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        return np.asarray(noise.draw(count, randomness) / _SCALE + (1.0 if neighbour else -1.0))

    return Drawn(_claimed(PartyView("active"), "others-part", epsilon, delta), draw, "one noisy score, at ±k")


def _poisson_binomial(*, rows: int, known: bool) -> Drawn:
    """One party's values at one end or the other, in one row or in all, the other party's where they hide least."""
    delta = 1e-5
    claimed = formulas.feature_epsilon(
        delta, contributors=_PARTIES, trials=_TRIALS, beta=_BETA, coordinates=_COORDINATES, uses=1.0
    ).value
    noise = PoissonBinomialNoise(trials=_TRIALS, beta=Fraction(_BETA), bound=Fraction(1))

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        changed = np.full((count, rows * _COORDINATES), 1.0 if neighbour else -1.0)
        total = noise.draw(changed, randomness).sum(axis=1)
        if not known:
            total = total + noise.draw(np.ones_like(changed), randomness).sum(axis=1)
        return np.asarray(total, dtype=np.float64)

    observer: Server | PartyView = PartyView("other") if known else Server()
    unit = "own-part:first" if rows == 1 else "columns:first"
    return Drawn(_claimed(observer, unit, claimed, delta), draw, "the sum of all coordinates' counts")


def _integer_masks() -> Drawn:
    """q + u − u′ with masks below b = 16, for q = 0 and q = b; "perfectly secure" claims ε = 0."""
    size = 16

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        masks = np.array(
            [below(size, randomness) - below(size, randomness) for _ in range(count)], dtype=np.float64
        )
        return masks + (size if neighbour else 0)

    return Drawn(
        _claimed(Server(), "own-part:first", 0.0, 0.0), draw, "a masked count, as the server receives it"
    )


def _functional_part() -> Drawn:
    """d = 4 features, one of them a party's own: it goes from −1 to 1, all else of the record is 1.

    Each product with the three others changes by 2, and the one with the label by 4.
    """
    features, claimed = 4, 4.0
    whole = formulas.linear_sensitivity(features)
    part = formulas.linear_party_sensitivity(features, own=1, holds_label=False)
    epsilon = claimed * whole.value / part.value
    shown = formulas.party_epsilon(epsilon, party_sensitivity=part, sensitivity=whole).value
    scale = whole.value / epsilon
    noise = DiscreteLaplaceNoise(Fraction(_SCALE))

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        side = 1.0 if neighbour else -1.0
        # The mean of two draws on each product, one draw on the product with the label; all in scales of the noise.
        pairs = noise.draw((count, features - 1, 2), randomness).mean(axis=2) / _SCALE + side / scale
        label = noise.draw(count, randomness) / _SCALE - 2.0 * side / scale
        ratio = np.abs(label - 2.0 / scale) - np.abs(label + 2.0 / scale)
        return np.asarray(ratio + (_of_two(pairs - 1 / scale) - _of_two(pairs + 1 / scale)).sum(axis=1))

    return Drawn(
        _claimed(Server(), "own-part:first", shown, 0.0),
        draw,
        "the likelihood ratio of the coefficients that changed",
    )


def _of_two(values: Array) -> Array:
    """The logarithm of the density of the mean of two Laplace draws of scale 1, up to a constant."""
    return np.asarray(np.log1p(np.abs(2 * values)) - np.abs(2 * values))


def _spca() -> Drawn:
    """A record with all of its norm in one column, there or not, on the coarsest grid of the paper."""
    columns, gamma, epsilon, delta = 6, 16, 1.0, 1e-5
    mu = Fraction(round(formulas.server_mu(formulas.gram_moments(columns, gamma), epsilon, delta).value))

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        values = np.empty(count)
        row = np.full((1, columns), gamma / math.sqrt(columns))
        for number in range(count):
            rounded = stochastic(row, randomness)[0].astype(np.float64)
            seen = paper_noise([columns // 2, columns // 2], mu, randomness) + neighbour * np.outer(
                rounded, rounded
            )
            values[number] = float(np.triu(seen).sum())
        return values

    return Drawn(_claimed(Server(), "record", epsilon, delta), draw, "the sum of the noisy products")


def _encrypted_paper() -> Drawn:
    """Four records, batches of one, steps of 1: the passive party's part of the first record is flipped."""
    score = NumericColumn("score", low=-1.0, high=1.0)
    other = NumericColumn("other", low=-1.0, high=1.0)
    schemas = (
        PublicSchema("active", (score,), ClassLabel("label", classes=("no", "yes"))),
        PublicSchema("passive", (other,)),
    )
    group = Group.pair("active", "passive", active="active")
    spec = TrainingSpec(
        "classification",
        2.0,
        delta=0.1,
        accepted_delta=0.1,
        options=EncryptedOptions(epochs=12, batch=1, learning_rate=1.0, defence="paper"),
        public=group.owners,
        alignment="equal",
    )
    plan = spec.plan(group, schemas, 4)
    low, high = corner(schemas, 0.0), corner(schemas, 1.0)
    worlds = {
        side: together([mixed(high, low, [] if side else ["passive"]), high, high, high])
        for side in (False, True)
    }

    def draw(neighbour: bool, count: int, randomness: Randomness) -> Array:
        return np.array([_ratio_of_scores(plan, worlds, neighbour, randomness) for _ in range(count)])

    return Drawn(
        _claimed(PartyView("active"), "others-part", spec.epsilon, 0.1),
        draw,
        "the likelihood ratio of the passive party's scores, its weights followed on either data set",
    )


def _ratio_of_scores(
    plan: EncryptedPlan, worlds: dict[bool, People], neighbour: bool, randomness: Randomness
) -> float:
    def rows_of(people: People, owner: str) -> Table:
        schema = next(schema for schema in plan.schemas if schema.party == owner)
        return table_of(schema.with_ids(), owner, people[owner], lambda: None)

    people = worlds[neighbour]
    tables = {owner: rows_of(people, owner) for owner in plan.group.owners}
    sent = ideal_descent(plan, tables, dict.fromkeys(plan.group.owners, randomness)).messages
    one, sigma = 1 << plan.fraction_bits, float(plan.noise_of("passive").sigma_squared) ** 0.5
    ratio = 0.0
    for side, sign in ((False, 1.0), (True, -1.0)):
        holding = OwnerState("passive", rows_of(worlds[side], "passive"), plan, randomness)
        batches = [rows for epoch in range(plan.schedule.epochs) for rows in plan.batches(epoch)]
        for rows, scores, received in zip(batches, sent["passive"], sent["active"], strict=True):
            distance = scores - holding.scores(rows) * one
            ratio += sign * float(distance @ distance) / (2 * sigma**2)
            holding.descend_split(rows, (holding.integers[rows].T @ received).tolist())
    return ratio
