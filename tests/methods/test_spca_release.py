"""Components by SPCA: coarse grids, computing parties that own nothing, the paper's own algorithm, captured
variance.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA as Exact
from training_specs import planned_on, requested

from colonnade import PCA, Federation, Schema, Table
from colonnade.errors import JobError, PlanError
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.methods.spca.method import SpcaOptions, paper_gram, paper_noise
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness

FALSE_ALARM_SIGMAS = 6.2
ROWS = 4000


def rows_of(rows: Any = ROWS, seed: int = 0) -> Any:
    """Six columns with one strong and one weaker direction."""
    rng = np.random.default_rng(seed)
    strong, weak = rng.uniform(-1, 1, (2, rows))
    mixed = np.column_stack([strong, strong, 0.5 * weak, strong, 0.5 * weak, np.zeros(rows)])
    return np.clip(mixed + 0.05 * rng.normal(size=mixed.shape), -1, 1)


def tables_of(rows: Any, parties: Any = ("bank", "shop", "clinic")) -> Any:
    tables = []
    for party, columns in zip(parties, np.array_split(np.arange(rows.shape[1]), len(parties)), strict=True):
        text = "id='n'\n" + "".join(f"[columns.c{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in columns)
        tables.append(Table.from_arrays(party, {f"c{i}": rows[:, i] for i in columns}, Schema.parse(text)))
    return tables


def named(rows: Any) -> Any:
    return {f"c{i}": rows[:, i] for i in range(rows.shape[1])}


def federation(rows: Any = None, **more: Any) -> Any:
    rows = rows_of() if rows is None else rows
    return Federation(tables_of(rows), budget=(50.0, 1e-5), public=True, noise_seed=7, **more)


@pytest.mark.parametrize("gamma", [4, 16, 64, 4096])
def test_a_coarse_grid_finds_the_same_directions(gamma: int) -> None:
    rows = rows_of()
    model = PCA(2, epsilon=1.0, method="spca", options={"gamma": gamma}).fit(federation(rows))
    best = Exact(2).fit(rows)
    captured = model.captured_variance(named(rows))
    assert captured == pytest.approx(best.explained_variance_ratio_.sum(), rel=0.02 if gamma > 4 else 0.1)


def test_retry_keeps_the_bound_of_the_paper_in_the_plan_and_is_compared() -> None:
    spec = TrainingSpec("pca", 1.0, delta=1e-5, options=SpcaOptions(gamma=16))
    plan = planned_on(spec, federation().tables.values(), active=None)
    assert plan.rounding == "retry" and plan.to_data()["rounding"] == "retry"
    assert plan.shape_of_all_but(None).norm_squared <= 16**2 + 6
    plain = requested(MomentsOptions, "pca", 1.0, delta=1e-5)
    retried = requested(SpcaOptions, "pca", 1.0, delta=1e-5)
    assert plain.to_data() != retried.to_data()


def test_grids_too_coarse_labels_and_paper_mode_on_private_data_are_refused() -> None:
    with pytest.raises(PlanError, match="'retry' takes coarser grids"):
        PCA(method="spca", options={"gamma": 64, "rounding": "nearest"}).fit(federation())
    from colonnade import LogisticRegression

    with pytest.raises(JobError, match="cannot do classification"):
        LogisticRegression(method="spca").fit(federation())
    private = Federation(tables_of(rows_of(100)), budget=(50.0, 1e-5))
    with pytest.raises(PlanError, match="public"):
        PCA(method="spca", options={"calibration": "paper"}).fit(private)
    assert private.runs == []
    with pytest.raises(PlanError, match="there is no plan of it"):
        TrainingSpec("pca", 1.0, options=SpcaOptions(calibration="paper")).check()


def test_the_server_sees_a_record_zeroed_out_and_a_client_sees_one_replaced() -> None:
    model = PCA(2, epsilon=1.0, method="spca").fit(federation())
    by_name = {one.observer.name: one for one in tuple(model.privacy_)}
    assert by_name["server"].unit.name == "record" and by_name["server"].epsilon <= 1.0
    for party in ("bank", "shop", "clinic"):
        assert by_name[f"party:{party}"].unit.name == "others-part"
        # √2 more sensitivity, and one of three parts of the noise known: the honest column of the paper's tables.
        assert 1.0 < by_name[f"party:{party}"].epsilon < 2.0


def test_more_colluders_leave_a_party_no_cheaper() -> None:
    wide = np.column_stack([rows_of(), rows_of(seed=1)])
    names = ("a", "b", "c", "d", "e")
    epsilons = []
    for threshold in (1, 2):
        source = Federation(
            tables_of(wide, names),
            budget=(50.0, 1e-5),
            noise_seed=3,
            threshold=threshold,
            computing_parties=names[: 2 * threshold + 1],
        )
        model = PCA(1, epsilon=1.0, method="spca").fit(source)
        epsilons.append(
            max(one.epsilon for one in tuple(model.privacy_) if one.observer.name.startswith("party"))
        )
    assert epsilons[0] <= epsilons[1]


def test_clients_may_hand_their_shares_to_keepers_that_own_nothing() -> None:
    """Federated analytics: the clients deal and leave, three others multiply, the server reads."""
    source = federation(computing_parties=("north", "south", "west"))
    run = source.run(
        moments_session,
        requested(SpcaOptions, "pca", 1.0, delta=1e-5, gamma=64),
        record=True,
    )
    heard = {
        member: {seen.step.split(" ")[0] for seen in run.outcome.seen[member]} for member in run.outcome.seen
    }
    assert {"columns", "noise"} <= heard["north"] and not {"columns", "noise"} & heard["bank"]
    assert "moments" in heard["server"] and "columns" not in heard["server"]
    model = PCA(2).fit(run.release)
    assert model.captured_variance(named(rows_of())) > 0.9
    assert all("computing party" in str(one) for one in run.plan.guarantees)


def test_captured_variance_is_scikit_learns_without_noise_and_all_directions_capture_everything() -> None:
    rows = rows_of()
    model = PCA(2, method="non-private").fit(federation(rows))
    exact = Exact(2).fit(rows)
    assert model.captured_variance(named(rows)) == pytest.approx(
        exact.explained_variance_ratio_.sum(), rel=1e-4
    )
    rows = rows_of(300)
    model = PCA(6, method="non-private").fit(federation(rows))
    assert model.captured_variance(named(rows)) == pytest.approx(1.0)
    assert model.captured_variance(np.empty((0, 6))) == 0.0


def test_paper_mode_promises_nothing_and_rounding_is_not_taken_for_directions() -> None:
    model = PCA(2, epsilon=1.0, method="spca", options={"gamma": 16, "calibration": "paper"}).fit(
        federation()
    )
    assert tuple(model.privacy_) == () and "No guarantee" in str(model.privacy_)
    assert model.captured_variance(named(rows_of())) > 0.9
    # At γ = 4 rounding lifts every eigenvalue by up to n/4γ², far past the noise: two directions are there.
    model = PCA(epsilon=8.0, method="spca", options={"gamma": 4}).fit(federation())
    assert model.learnable_rank_ <= 3
    assert np.linalg.eigvalsh(model.releases_[0].gram).min() > 2 * model.releases_[0].noise


def test_the_papers_gram_is_right_on_average() -> None:
    rows = rows_of(2000)
    gathered = gather(federation(rows), TrainingSpec("pca", 1.0, delta=1e-5))
    exact = 64.0**2 * gathered.features.T @ gathered.features
    found = paper_gram(gathered, 64, SeededRandomness(1))
    alongside = ~np.eye(6, dtype=bool)
    # Off the diagonal the error has variance at most n(γ²/6 · 2/4 + 1/16) an entry.
    limit = FALSE_ALARM_SIGMAS * np.sqrt(2000 * (64**2 / 12 + 1 / 16))
    assert np.abs(found - exact)[alongside].max() < limit
    assert np.all(np.diag(found) - np.diag(exact) < 2000 / 4 + limit)


def test_own_pairs_carry_one_noise_of_their_owner_and_cross_pairs_a_part_of_everybody() -> None:
    """Both have variance 2μ: that is the paper's point. 6 standard deviations of a sample variance of 600 entries."""
    mu = Fraction(5000)
    noise = np.concatenate([paper_noise([2, 2, 2], mu, SeededRandomness(seed))[None] for seed in range(100)])
    assert np.array_equal(noise, noise.transpose(0, 2, 1))
    own = np.stack([noise[:, i, i] for i in range(6)])
    cross = np.stack([noise[:, i, j] for i in range(2) for j in range(2, 6)])
    for entries in (own, cross):
        spread = 6.2 * np.sqrt(2 / entries.size) * 10_000
        assert abs(entries.astype(float).var() - 10_000) < spread
        assert abs(entries.astype(float).var() - 15_000) > spread, "half as much again would show"
