"""Scores between parties: each computes its own term, and only the one that asks sees the sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from colonnade.data.encoder import Encoder
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, PlanError
from colonnade.evaluation.estimates import figure_text
from colonnade.models.files.document import Privacy
from colonnade.models.files.membership import IdRules, Lists, TrainingMembership, remembered
from colonnade.protocols.joint_scores import Scored, ScoresPlan, ScoresSpec, Terms, scores_session
from colonnade.randomness import SystemRandomness, public_permutation
from colonnade.runtime.party import Party

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation, Run
    from colonnade.models.inputs import InputSpec


Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointScores:
    """`opened` are the sums as they came out; of networks `sums` are what the label holder's part makes of them."""

    sums: Array
    opened: Array
    ids: tuple[str, ...]
    statement: str
    privacy: Privacy
    run: Run[ScoresPlan]


def score_jointly(
    federation: Federation,
    request: ScoresSpec,
    terms: Mapping[str, Terms],
    *,
    trained_on: Mapping[str, TrainingMembership] | None,
) -> JointScores:
    """Sum the parties' terms for the people of a federation; a party without terms adds nothing.

    Exact scores are refused for people in `trained_on`, for those whom a party's data set remembers from any training,
    and altogether where nobody knows who was trained on, or ids are not read as they were then.
    """
    missing = [party for party in dict.fromkeys((*terms, request.receiver)) if party not in federation.tables]
    if missing:
        raise DataError(f"the model has a part of {', '.join(missing)}, which takes no part here.")
    known = {party: _lists(federation, party, (trained_on or {}).get(party)) for party in federation.tables}
    if request.epsilon is None and not federation.public:
        if trained_on is None:
            raise PlanError(
                "which people the model was trained on is not known here, and exact scores of them would show more "
                "than was promised. Nothing was run. Score with the estimator that was fitted, or give the folder of "
                "the run or the ledgers that paid for it, which have a list at each party, or an ε (--epsilon) for "
                "noisy scores that are charged."
            )
        for party, lists in known.items():
            for people in lists:
                people.check_rules(party, federation.tables[party].schema)

    async def session(party: Party, table: Table | None, spec: ScoresSpec) -> Scored:
        lists = Lists(known.get(party.name, ()))
        return await scores_session(party, table, spec, terms.get(party.name), lists)

    run = federation.run(session, request, trains=False)
    scored: Any = run.result(request.receiver)
    ids = tuple(str(person) for person in scored.aligned.table.ids())
    return JointScores(scored.sums, scored.sums, ids, run.plan.statement, run.privacy, run)


def trained_people(run: Any) -> dict[str, TrainingMembership]:
    return {
        party: TrainingMembership.of_table(aligned.table, SystemRandomness(), run=run.name)
        for party, aligned in run.aligned.items()
    }


def is_remembered(run: str, federation: Federation) -> bool:
    """Whether the data set of some party remembers whom this run trained on: all of a run train on the same people."""
    return any(run in people.runs for party in federation.tables for people in _lists(federation, party))


def _lists(
    federation: Federation, party: str, own: TrainingMembership | None = None
) -> tuple[TrainingMembership, ...]:
    rules = IdRules.of(federation.tables[party].schema)
    kept = remembered(federation.ledgers[party].path, federation.datasets[party], rules)
    return kept if own is None else (own, *kept)


def linear_terms(
    frame: InputSpec, coefficients: Array, middles: Mapping[str, Array] | None = None
) -> dict[str, Terms]:
    """Each party's part of a linear predictor on `frame.features`: x_q · w_q, less its middle."""

    def term(encoder: Encoder, weights: Array, middle: Array | float, aligned: AlignedTable) -> Array:
        blocks = [encoder.encode(block) @ weights.T for block in aligned.blocks()]
        return np.asarray(np.concatenate(blocks) - middle)

    scale = math.sqrt(frame.attributes)
    return {
        party: partial(term, encoder, own / scale, 0.0 if middles is None else middles[party])
        for party, encoder, own in party_weights(frame, coefficients)
    }


def party_weights(frame: InputSpec, coefficients: Array) -> Iterator[tuple[str, Encoder, Array]]:
    start = 0
    for party, encoder in frame.encoders:
        yield party, encoder, np.asarray(coefficients)[:, start : start + encoder.width]
        start += encoder.width


def linear_bound(frame: InputSpec, coefficients: Array) -> float:
    """No party's term of this linear predictor is larger: m_q attributes make a block of norm at most √m_q."""
    attributes = sum(encoder.attributes for _, encoder in frame.encoders)
    extents = [
        math.sqrt(encoder.attributes / attributes) * float(np.linalg.norm(own, axis=1).max())
        for _, encoder, own in party_weights(frame, coefficients)
    ]
    # A little more than any rounding of floats could add.
    return max(1e-6, *(extent * (1 + 1e-9) for extent in extents))


DRAWS = 64
"""How many sums around each are read."""


def expected(
    read: Callable[[Array], Array], sums: Array, *, deviation: float, most: float
) -> tuple[Array, Array]:
    """Mean and deviation of what is read of sums whose noise has this deviation; no sum is past `most`."""
    levels = ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    steps = np.stack([levels[public_permutation(DRAWS, seed)] for seed in range(sums.shape[1])], axis=1)
    within = np.clip(sums, -most, most)
    readings = np.stack([read(np.clip(within + deviation * step, -most, most)) for step in steps])
    return np.asarray(readings.mean(axis=0)), np.asarray(readings.std(axis=0))


def noisy_text(value: float, noise: float, *, probability: bool) -> str:
    """A number with no more digits than its noise leaves; a probability is never said to be 0 or 1."""
    if probability and noise > 0:
        least = 10.0 ** math.floor(math.log10(noise))
        value = min(max(value, least), 1.0 - least) if least < 0.5 else 0.5
    return figure_text(value, noise)
