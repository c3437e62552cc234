"""What a training run on sums of embeddings is to each observer, per row and party, per row, per column set.

With M contributors of b coins each, an observer that knows k contributors' counts is left with M − k to hide in. The
label holder knows its own if it holds columns; a fellow party knows its own and sees what the returned gradient shows
of the sums, which is at most the sums; a coalition knows those of all its members.

A record's part is released P coordinates at a time, once per pass; in the private-local regime a clipped and noised
step per pass is added for the network that the part trains, as if that network were shown to everybody. Why this is the
whole loss of a record, and why labels are randomised once instead of at every step: docs/proofs/embeddings.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from colonnade.errors import PrivacyError
from colonnade.ledger import LedgerLine
from colonnade.methods.network.terms import EMBEDDING_GRID, GRADIENT_GRID
from colonnade.privacy.events import Approximated, Composed, Event, Repeated
from colonnade.privacy.guarantee import Cost, Guarantee, View, account, check_claim
from colonnade.privacy.leaves import PerStep, PoissonBinomial
from colonnade.privacy.neighbours import ColumnsOf, OthersPart, PartOf
from colonnade.privacy.observers import Coalition, Observer, PartyView, Server
from colonnade.privacy.sensitivity.matrix import root_up
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.plans import lines_about

if TYPE_CHECKING:
    from colonnade.methods.network.plan import EmbeddingsPlan


def views_of(plan: EmbeddingsPlan) -> tuple[View, ...]:
    """The label holder's views, then each fellow party's, then those of the coalitions that the plan names.

    The label holder is listed twice: as the observer "server", which is what PBM-VFL calls it, and as the party that it
    is, so that a ledger adds up what it learns in all of its roles.
    """
    if plan.options.mechanism == "none":
        return ()
    holder = plan.receiver
    views: list[View] = []
    role = f"it is {holder}, which holds the label and runs the fusion model, and it colludes with nobody{UNCHECKED}"
    alone = f"it colludes with nobody (its own counts it knows){UNCHECKED}"
    for observer, assumption in ((Server(), role), (PartyView(holder), alone)):
        views += _about_all(plan, observer, {holder}, assumption)
    if plan.learns_locally:
        for party in plan.contributors:
            if party != holder:
                views += _about_all(plan, PartyView(party), {party}, alone)
    for members in plan.options.coalitions:
        if plan.learns_locally or holder in members:
            views += _about_all(
                plan,
                Coalition(tuple(members)),
                set(members),
                f"it pools everything its members see{UNCHECKED}",
            )
    return tuple(views)


def _about_all(
    plan: EmbeddingsPlan, observer: Observer, known: Collection[str], assumption: str
) -> Iterator[View]:
    hidden = [party for party in plan.contributors if party not in known]
    subjects = hidden + ([] if plan.receiver in known or plan.receiver in hidden else [plan.receiver])
    told = "" if plan.options.mechanism == "poisson-binomial" else "; embeddings are sent one by one"
    for party in subjects:
        if event := _event(plan, known, (party,)):
            yield View(observer, PartOf(party), event, assumption + told)
    # Also where one party is all the others: accounts of whole records must not miss this run.
    if subjects and (event := _event(plan, known, tuple(subjects))):
        yield View(observer, OthersPart(), event, assumption + told)
    for party in hidden:
        # The label is a column too, and no statement covers all labels.
        if party != plan.receiver and (event := _event(plan, known, (party,), rows=plan.rows)):
            yield View(observer, ColumnsOf(party), event, assumption + told)


def _event(
    plan: EmbeddingsPlan, known: Collection[str], changed: tuple[str, ...], *, rows: int = 1
) -> Event | None:
    moving = [party for party in changed if party in plan.contributors]
    parts: list[Event] = []
    if moving:
        parts.append(embedding_event(plan, known=known, changed=len(moving), rows=rows))
        if plan.update_noise is not None:
            parts += [update_event(plan, rows=rows)] * len(moving)
    labels = plan.receiver in changed and plan.learns_locally and rows == 1
    if labels:
        if plan.label_noise is None:
            # The returned gradient shows labels: there is no event to charge, and nothing is claimed.
            return None
        parts.append(label_event(plan))
    return None if not parts else parts[0] if len(parts) == 1 else Composed(tuple(parts))


def embedding_event(
    plan: EmbeddingsPlan, *, known: Collection[str], changed: int = 1, rows: int = 1
) -> Event:
    """The embeddings of one record, or of all, over all passes: P coordinates of each."""
    times = plan.passes * rows
    if plan.options.mechanism == "local-gaussian":
        reach = root_up(4 * EMBEDDING_GRID**2 * plan.options.embedding)
        # Each changed party sends a vector of its own.
        steps = PerStep((reach,) * (plan.passes * changed), plan.local_variance)
        draws = plan.rows * plan.passes * plan.options.embedding * len(plan.contributors)
        return Approximated(steps if rows == 1 else Repeated(steps, rows), draws=draws)
    hiding = len([party for party in plan.contributors if party not in known])
    leaf = PoissonBinomial(hiding, plan.options.trials, plan.beta, changed)
    return Repeated(leaf, times * plan.options.embedding)


def update_event(plan: EmbeddingsPlan, *, rows: int = 1) -> Event:
    """The steps of one local network: a record is in one batch of each pass, and moves its clipped sum by 2c."""
    reach, steps = 2 * GRADIENT_GRID, plan.passes
    if rows > 1:
        reach, steps = reach * plan.batch, plan.steps
    return Approximated(
        PerStep((reach,) * steps, plan.update_variance), draws=max(1, plan.options.parameters * plan.steps)
    )


def label_event(plan: EmbeddingsPlan) -> Event:
    """One label, randomised once: everything that leaves its holder afterwards is computed from the result."""
    leaf = PoissonBinomial(1, plan.label_trials, plan.label_beta)
    return leaf if plan.label_coordinates == 1 else Repeated(leaf, plan.label_coordinates)


def lines_of(plan: EmbeddingsPlan, party: str) -> tuple[LedgerLine, ...]:
    """What an owner's ledger holds: its own part and whole records, to everyone but itself.

    The label holder is charged as the party that it is: the server of a run sees nothing. Whole columns are stated and
    not charged: no release hides them, and no account is kept for them.
    """
    parts = (
        view for view in plan.views if not isinstance(view.unit, ColumnsOf) and view.observer != Server()
    )
    return lines_about(party, parts)


def costs_of(views: Iterable[View], delta: float) -> tuple[Guarantee, ...]:
    """One statement per view. Many views share an event, which is accounted for once."""
    statements = []
    for view in views:
        check_claim(view.event, observer=view.observer, unit=view.unit)
        cost = cost_of(view.event, delta)
        statements.append(
            Guarantee(view.observer, view.unit, cost.epsilon, cost.delta, view.assumption, cost.method)
        )
    return tuple(statements)


@lru_cache(maxsize=256)
def cost_of(event: Event, delta: float) -> Cost:
    """ε of an event at δ; infinite where it is so large that nothing can be stated."""
    try:
        return account(event, delta)
    except PrivacyError:
        # So large that not even the samplers' distance from their laws fits into δ.
        return Cost(math.inf, delta, "no bound at this δ")
