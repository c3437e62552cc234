"""Moments by class against their ideal twin, with their noise, and what a run and a release say of them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ideals import ideal_moments
from margin_runs import Silence
from plan_runs import inputs_for, run_protocol
from test_noisy_moments import LABELS, NAMES, Witnessed, plan_for, tables_of
from typed import untyped

from colonnade.crypto.sharing import Shamir
from colonnade.errors import LabelMismatch, LocalProtocolError
from colonnade.federation.federation import Federation
from colonnade.methods.moments.protocol import conditional_moments
from colonnade.models.release import MomentRelease
from colonnade.numbers.field import FIELD63
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.sharing import Shared, lower
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import run_here

run_plan = partial(run_protocol, conditional_moments)


@pytest.mark.parametrize(
    ("count", "holder", "computing_parties"),
    [(2, 0, None), (2, 1, None), (3, 1, None), (5, 2, None), (2, 0, ("one", "two", "three"))],
)
def test_without_noise_moments_by_class_are_the_ideal(
    count: int, holder: int, computing_parties: tuple[str, str, str] | None
) -> None:
    parties = NAMES[:count]
    tables = tables_of(parties, 130, active=parties[holder], seed=count)
    more = {} if computing_parties is None else {"computing_parties": computing_parties}
    group = Group.of(parties, active=parties[holder], **untyped(more))
    plan = plan_for(tables, group, conditional=True)
    plan.__dict__.update(noise=Silence(), views=(), block=50)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_moments(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


def test_what_is_opened_by_class_is_the_ideal_plus_every_owners_noise() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    plan = plan_for(tables, Group.of(("bank", "insurer"), active="bank"), conditional=True)
    drawn: list[Any] = []
    plan.__dict__["noise"] = Witnessed(untyped(plan.noise), drawn)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    ideal = ideal_moments({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    classes = len(LABELS["classification"].split("classes=")[1].split(","))
    assert len(drawn) == 3 * classes, "both owners and the server draw noise for every class"
    noise = opened - ideal.astype(np.int64)
    diagonals = [np.diag(noise)[plan.class_span(kind)] for kind in range(classes)]
    # Owners run at once, so whose draw came first is not known; their sum over all draws is.
    assert sum(d.sum() for d in diagonals) == sum(np.diag(one).sum() for one in drawn)
    assert not noise[plan.class_span(0), plan.class_span(1)].any(), "products of classes are not released"


def test_noise_and_the_servers_epsilon_are_those_of_a_plain_plan_and_no_party_gets_less() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    group = Group.of(("bank", "insurer"), active="bank")
    plain, conditional = (plan_for(tables, group, conditional=by_class) for by_class in (False, True))
    # A few more entries are drawn, each 2^-100 from its law.
    assert float(conditional.mu / plain.mu) == pytest.approx(1, abs=1e-6)
    assert plain.hash != conditional.hash and "for each of 3 classes" in conditional.what
    stated = [{one.observer.name: one.epsilon for one in plan.guarantees} for plan in (plain, conditional)]
    assert stated[1][Server().name] <= 1.0
    for owner in group.owners:
        name = PartyView(owner).name
        assert stated[1][name] >= stated[0][name] - 1e-6
    assert [plan.to_data()["spec"]["conditional"] for plan in (plain, conditional)] == [False, True]


def test_a_release_by_class_is_read_selected_and_kept(tmp_path: Path) -> None:
    tables = tables_of(("bank", "insurer"), 900)
    release = Federation(tables, budget=(1e9, 1e-5)).moments(
        task="classification", epsilon=20.0, delta=1e-5, conditional=True
    )
    assert "by class" in repr(release) and release.parts == 3
    counts = np.unique(np.concatenate([b.label for b in tables[0].blocks()]), return_counts=True)
    np.testing.assert_allclose(release.class_moments().counts, counts[1], atol=6.0)
    plain = Federation(tables, budget=(1e9, 1e-5)).moments(task="classification", epsilon=20.0, delta=1e-5)
    np.testing.assert_allclose(release.gram, plain.gram, atol=6.0)
    np.testing.assert_allclose(release.class_moments().sums, plain.class_moments().sums, atol=6.0)
    some = release.select(["bank_kind", "insurer0"])
    assert some.conditional and len(some.grams) == 3
    np.testing.assert_allclose(some.gram, plain.select(["bank_kind", "insurer0"]).gram, atol=6.0)
    release.save(tmp_path / "r.npz")
    again = MomentRelease.load(tmp_path / "r.npz")
    assert again.conditional and np.array_equal(again.matrix, release.matrix)


def test_what_has_no_classes_has_no_moments_by_class_and_only_products_are_lowered() -> None:
    tables, group = (
        tables_of(("bank", "insurer"), 60, task="regression"),
        Group.of(("bank", "insurer"), active="bank"),
    )
    with pytest.raises(LabelMismatch, match="regression has no classes"):
        plan_for(tables, group, task="regression", conditional=True)

    async def program(party: Party, table: Any) -> Any:
        return await lower(party, Shared(None, (1, 1), 1), scheme=Shamir(3, FIELD63), step="x")

    with pytest.raises(LocalProtocolError, match="a value of degree 1 was to be lowered"):
        run_here(program, group, inputs_for(group))
