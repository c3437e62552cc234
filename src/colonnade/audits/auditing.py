"""An audit from beginning to end: experiments of a request, run through its own protocol, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.audits.bounds import CONFIDENCE, Bound, best_of, canary_bound, threshold_bound
from colonnade.audits.experiments import Array, Bits, Claim, Drawn, Experiment
from colonnade.audits.sessions import Sessions
from colonnade.audits.targets import Target
from colonnade.errors import PlanError
from colonnade.randomness import Randomness
from colonnade.runtime.party import silent

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Shown:
    """What one experiment showed about one claim."""

    kind: str
    what: str
    sessions: int
    bound: Bound

    def to_data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "what": self.what,
            "sessions": self.sessions,
            "trials": self.bound.trials,
            "hits": self.bound.hits,
            "misses": self.bound.misses,
            "epsilon": self.bound.epsilon,
            "most": self.bound.most,
            "confidence": self.bound.confidence,
        }


@dataclass(frozen=True)
class Finding:
    """One observer and unit: what is claimed, and the largest ε that was shown, with 95 % confidence."""

    claim: Claim
    shown: tuple[Shown, ...]

    @property
    def lower(self) -> float:
        """ε is at least this."""
        return best_of(each.bound for each in self.shown).epsilon

    @property
    def most(self) -> float:
        """The largest bound that these trials could have given."""
        return max(each.bound.most for each in self.shown)

    @property
    def exceeded(self) -> bool:
        return self.lower > self.claim.epsilon

    def to_data(self) -> dict[str, Any]:
        return {
            "observer": self.claim.observer,
            "unit": self.claim.unit,
            "about": self.claim.about,
            "lower": self.lower,
            "upper": self.claim.epsilon,
            "delta": self.claim.delta,
            "proved": self.claim.proved,
            "source": self.claim.source,
            "most": self.most,
            "exceeded": self.exceeded,
            "experiments": [each.to_data() for each in self.shown],
        }


def audit(
    target: Target, *, runs: int, draws: int = 0, seed: int | None = None, progress: Progress = silent
) -> tuple[Finding, ...]:
    """Every experiment of a target in so many sessions each, and so many draws of its noise where it has such."""
    sessions = Sessions(target.program, target.group, target.schemas, seed=seed)
    drawn = target.drawn if draws else ()
    return carry_out(target.experiments, sessions, runs=runs, drawn=drawn, draws=draws, progress=progress)


def carry_out(
    experiments: Sequence[Experiment],
    sessions: Sessions,
    *,
    runs: int,
    drawn: Sequence[Drawn] = (),
    draws: int = 0,
    progress: Progress = silent,
) -> tuple[Finding, ...]:
    """Every experiment in so many sessions; one finding a claim, in the order of the claims.

    Where a claim is tried in more than one way, the alarms of the ways are shared out, so that 95 % is for their best.
    """
    if runs < 4:
        raise PlanError(
            f"{runs} sessions are too few to choose an event on one half and judge it on the other."
        )
    ways: dict[tuple[str, str], int] = {}
    for experiment in experiments:
        for claim in experiment.claims:
            ways[claim.key] = ways.get(claim.key, 0) + 1
    for each in drawn:
        ways[each.claim.key] = ways.get(each.claim.key, 0) + 1
    claims: dict[tuple[str, str], Claim] = {}
    shown: dict[tuple[str, str], list[Shown]] = {}
    done, total = 0, runs * len(experiments)
    for experiment in experiments:
        values: dict[tuple[str, str], list[Array]] = {claim.key: [] for claim in experiment.claims}
        flipped = []
        for coins in coin_flips(experiment, runs, sessions.randomness("auditor")):
            session = sessions.run(experiment.request(coins), experiment.people(coins))
            for claim in experiment.claims:
                values[claim.key].append(experiment.statistic(session, claim))
            flipped.append(coins)
            done += 1
            progress("sessions", done, total)
        for claim in experiment.claims:
            confidence = 1 - (1 - CONFIDENCE) / ways[claim.key]
            bound = judged(
                experiment, np.array(values[claim.key]), np.array(flipped), claim.delta, confidence=confidence
            )
            claims.setdefault(claim.key, claim)
            shown.setdefault(claim.key, []).append(Shown(experiment.kind, experiment.what, runs, bound))
    for number, each in enumerate(drawn):
        key = each.claim.key
        confidence = 1 - (1 - CONFIDENCE) / ways[key]
        bound = each.bound(draws, sessions.randomness(f"draws {number}"), confidence=confidence)
        claims.setdefault(key, each.claim)
        shown.setdefault(key, []).append(Shown("draws", each.what, 0, bound))
        progress("draws", number + 1, len(drawn))
    return tuple(Finding(claim, tuple(shown[key])) for key, claim in claims.items())


def coin_flips(experiment: Experiment, runs: int, randomness: Randomness) -> Iterable[Bits]:
    """The coins of every session: for two data sets as many of either in either half, for canaries fair ones."""
    if experiment.kind == "neighbours" and experiment.canaries == 1:
        for number in range(runs):
            yield np.array([number % 2 == 1])
        return
    for _ in range(runs):
        yield (randomness.words(experiment.canaries) & np.uint64(1)).astype(np.bool_)


def judged(experiment: Experiment, values: Array, coins: Bits, delta: float, *, confidence: float) -> Bound:
    """The bound that a table of statistics gives, a row a session and a column a coin."""
    if experiment.kind == "neighbours" or experiment.independent:
        flat, truth = values.ravel(), coins.ravel()
        return threshold_bound(flat[~truth], flat[truth], delta=delta, confidence=confidence)
    return canary_bound(values, coins, delta=delta, confidence=confidence)
