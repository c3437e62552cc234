"""Moments through the real protocol: mapped columns, perturbed columns, and components by SPCA."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from margin_runs import Silence
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.decomposition import PCA as Exact
from training_specs import planned_on, requested
from typed import untyped

from colonnade import (
    PCA,
    Federation,
    LinearRegression,
    LogisticRegression,
    MomentRelease,
    Schema,
    Table,
    rank_columns,
)
from colonnade.data.own_maps import OwnMap
from colonnade.errors import FieldTooSmall, JobError, PlanError, RemoteProtocolError
from colonnade.methods.baselines.gathering import gather
from colonnade.methods.local import protocol as local_perturbation
from colonnade.methods.local.method import perturbed_release
from colonnade.methods.local.protocol import LocalOptions, LocalPlan, local_session
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.methods.spca.method import SpcaOptions, paper_gram, paper_noise
from colonnade.planning.recommend import coding_advice, coding_warnings, map_warnings
from colonnade.privacy.guarantee import account
from colonnade.protocols import plans as limits
from colonnade.protocols import session
from colonnade.protocols.assumptions import UNCHECKED
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message

ROWS = 2000
RNG = np.random.default_rng(5)
RAW = {**{f"x{place}": RNG.uniform(-1, 1, ROWS) for place in range(16)}, "age": RNG.uniform(0, 90, ROWS)}
BUYS = np.where(RAW["x0"] * RAW["x5"] + 0.2 * RNG.normal(size=ROWS) > 0, "yes", "no")
PIXELS = 'id = "n"\ncolumns."x{0..15}" = {kind = "numeric", low = -1, high = 1}\n'
LABEL = '\n[label]\ncolumn = "buys"\nkind = "classes"\nclasses = ["no", "yes"]\n'
AGE = 'id = "n"\ncolumns.age = {kind = "numeric", low = 0, high = 90}\n'
MAPS = {
    "relu": 'kind = "random-relu"\nfeatures = 24\nseed = 7',
    "low": 'kind = "random-relu"\nfeatures = 24\nseed = 7\norigin = "low"',
    "fourier": 'kind = "random-fourier"\nfeatures = 24\nseed = 7\nscale = 0.5',
    "gradients": 'kind = "gradient-histogram"\nrows = 4\ncols = 4\ncells = 2',
    "ball": 'kind = "ball"\nbound = 1\ncolumns = ["x{0..15}"]\nweight = 3',
}


def schemas(mapped: str = "") -> tuple[Schema, Schema]:
    return Schema.parse(PIXELS + (f"[map]\n{mapped}\n" if mapped else "")), Schema.parse(AGE + LABEL)


def federation(mapped: str = "") -> Federation:
    eye, shop = schemas(mapped)
    tables = [Table.from_arrays("eye", RAW, eye), Table.from_arrays("shop", {**RAW, "buys": BUYS}, shop)]
    # From a seed, so that the tests end alike each time.
    return Federation(tables, budget=(1e3, 1e-4), noise_seed=1)


@pytest.mark.parametrize("name", MAPS)
def test_the_protocol_releases_the_moments_of_mapped_features(name: str) -> None:
    release = federation(MAPS[name]).moments(task="classification", epsilon=20.0, delta=1e-5)
    x = release.features(RAW)
    # Rounding on the grid moves an entry of a row by at most 1/(2γ); noise by 10 of its standard deviations.
    tolerance = ROWS / release.gamma + 10 * release.noise
    assert tolerance < 0.01 * ROWS
    assert_allclose(release.gram, x.T @ x, atol=tolerance)
    for index, count in enumerate(release.class_moments().counts):
        here = release.label.classes[index] == BUYS
        assert abs(count - untyped(here).sum()) < 10 * release.class_moments().count_noise
    assert np.linalg.norm(x, axis=1).max() <= 1 + 1e-12


def test_a_map_makes_a_linear_rule_find_what_two_columns_say_together() -> None:
    plain, mapped = (
        LogisticRegression(epsilon=10.0).fit(federation(map_)).score(RAW, BUYS)
        for map_ in ("", 'kind = "random-relu"\nfeatures = 40\nseed = 1\ncolumns = ["x0", "x5"]')
    )
    assert plain < 0.6 < 0.75 < mapped


def plan_of(mapped: str, *, rows: int = 5000, **change: Any) -> Any:
    eye, shop = schemas(mapped)
    group = Group.of(("eye", "shop"), active="shop")
    request = requested(MomentsOptions, **{"delta": 1e-5, **change})
    return request.plan(group, (eye.public("eye"), shop.public("shop")), rows)


def test_a_map_is_part_of_the_plan_and_plans_warn_where_it_costs_more_than_it_brings() -> None:
    hashes = {plan_of(mapped).hash for mapped in ("", *MAPS.values())}
    hashes |= {plan_of(MAPS["relu"].replace("seed = 7", "seed = 8")).hash}
    assert len(hashes) == 7
    assert plan_of(MAPS["relu"]).hash == plan_of(MAPS["relu"]).hash
    few = plan_of(MAPS["relu"], rows=3000)
    assert any("eye will cost accuracy" in warning for warning in map_warnings(few))
    assert map_warnings(plan_of(MAPS["relu"], rows=50_000)) == ()
    assert map_warnings(plan_of(MAPS["gradients"])) == map_warnings(plan_of("")) == ()


@pytest.mark.parametrize("name", MAPS)
def test_shares_of_the_norm_add_up_to_one_whatever_is_mapped(name: str) -> None:
    plan = plan_of(MAPS[name])
    assert sum((Fraction(cap.cap_squared or 0) for cap in plan.quantizers.values()), Fraction()) == 1
    assert plan.widths["eye"] == {"relu": 24, "low": 24, "fourier": 24, "gradients": 32, "ball": 16}[name]
    assert plan.attributes == {"relu": 17, "low": 17, "fourier": 17, "gradients": 5, "ball": 4}[name]


def test_a_plan_says_when_to_declare_ordered_bins_and_warns_of_matrices_by_class_without_them() -> None:
    few, many = (plan_of("", rows=rows) for rows in (5000, 50_000))
    assert "Numbers carry less noise than bins here" in coding_advice(few)
    assert "Ordered bins are expected to pay here" in coding_advice(many)
    assert coding_warnings(many) == ()
    assert "neither can be had of this release" in coding_warnings(plan_of("", conditional=True))[0]
    group = Group.of(("eye", "shop"), active="shop")
    levelled = tuple(
        Schema.parse(
            f'id = "n"\ncolumns.{party}1 = {{kind = "bins", bins = 4, low = 0, high = 1}}\n{label}'
        ).public(party)
        for party, label in (
            ("eye", ""),
            ("shop", 'label = {column = "y", kind = "classes", classes = ["a", "b"]}'),
        )
    )
    request = requested(MomentsOptions, task="classification", epsilon=1.0, delta=1e-5, conditional=True)
    plan = request.plan(group, levelled, 5000)
    assert coding_warnings(plan) == () and "tables of synthetic people can be made" in coding_advice(plan)


def test_an_own_function_takes_part_like_any_columns(tmp_path: Path) -> None:
    eye, shop = schemas()

    def product(person: dict[str, float]) -> list[float]:
        return [person["x0"] * person["x5"]]

    own = OwnMap("product", untyped(product), features=1, bound=1.0, weight=1)
    tables = [
        own.on(Table.from_arrays("eye", RAW, eye)),
        Table.from_arrays("shop", {**RAW, "buys": BUYS}, shop),
    ]
    source = Federation(tables, budget=(1e3, 1e-4), noise_seed=1)
    release = LogisticRegression(epsilon=20.0, method="moments").fit(source).releases_[0]
    release.save(tmp_path / "moments.npz")
    again = MomentRelease.load(tmp_path / "moments.npz")
    assert again.encoders == release.encoders
    assert LogisticRegression().fit(again).score(own.rows(RAW, eye), BUYS) > 0.75
    assert "eye.product" in {one.column for one in rank_columns(again).columns}


def test_grids_rows_and_columns_past_what_fits_are_answered_with_what_does(monkeypatch: Any) -> None:
    with pytest.raises(PlanError, match=r"The largest gamma that fits is (\d+)\.") as caught:
        plan_of("", gamma=1 << 26)
    finest = int(str(caught.value).split("fits is ")[-1].rstrip("."))
    assert plan_of("", gamma=finest).gamma == finest
    with pytest.raises(PlanError, match=f"fits is {finest}"):
        plan_of("", gamma=finest + 1)
    with pytest.raises(FieldTooSmall, match=r"What fits: at most \d+ rows .* No gamma from 4096 up fits"):
        plan_of("", rows=2**50, delta=1e-20)
    monkeypatch.setattr(limits, "physical_memory", lambda: 2**33)
    with pytest.raises(
        PlanError, match=r"16388 columns, which takes 16 .* a machine that takes part has less"
    ):
        plan_of('kind = "random-relu"\nfeatures = 16384\nseed = 7')
    monkeypatch.setattr(limits, "physical_memory", lambda: 64 * 1000**2)
    limits.check_memory(1000)
    with pytest.raises(PlanError, match="has less"):
        limits.check_memory(1001)
    monkeypatch.setattr(limits, "physical_memory", lambda: None)
    limits.check_memory(limits.MOST_COLUMNS)
    with pytest.raises(PlanError, match=r"64 GiB .* 32768 columns is the most"):
        limits.check_memory(limits.MOST_COLUMNS + 1)


LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n",
    "three": "[label]\ncolumn='y'\nkind='classes'\nclasses=['a','b','c']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-2\nhigh=2\n",
    "pca": "",
}


def tables_of(rows: int, task: str) -> tuple[list[Table], dict[str, NDArray[np.float64]], Any]:
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (rows, 4))
    values[:, 1] = 0.9 * values[:, 0] + 0.1 * values[:, 1]
    score = values[:, 0] + values[:, 2]
    labels = {
        "classification": np.where(score > 0.1, "yes", "no"),
        "three": np.array(list("abc"))[np.digitize(score, [-0.5, 0.5])],
        "regression": score,
    }
    tables = []
    for party, columns in (("bank", (0, 1)), ("shop", (2, 3))):
        text = "id='n'\n" + "".join(f"[columns.c{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in columns)
        arrays = {f"c{i}": values[:, i] for i in columns}
        if party == "shop" and task != "pca":
            text += LABELS[task]
            arrays["y"] = labels[task]
        tables.append(Table.from_arrays(party, arrays, Schema.parse(text)))
    return tables, {f"c{i}": values[:, i] for i in range(4)}, labels.get(task)


def local_federation(tables: list[Table]) -> Federation:
    return Federation(tables, budget=(5000.0, 1e-5), noise_seed=4)


def run_without_noise(monkeypatch: pytest.MonkeyPatch, task: Task) -> tuple[Any, Any]:
    tables, people, _ = tables_of(200, task)
    monkeypatch.setattr(LocalPlan, "noise", Silence())
    run = local_federation(tables).run(local_session, requested(LocalOptions, task, 1.0, delta=1e-5))
    return run, people


def test_without_noise_the_sums_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = run_without_noise(monkeypatch, "classification")
    found, plan = run.result(), run.result().plan
    columns = []
    label = None
    for owner in plan.group.owners:
        (block,) = run.aligned[owner].blocks(plan.rows)
        columns.append(plan.columns.quantizers[owner].quantize(block))
        if block.label is not None:
            label = plan.columns.label.quantize(block.label, plan.columns.gamma)
    joint = np.concatenate([*columns, label], axis=1)
    assert found.matrix.tolist() == (joint.T @ joint).tolist()
    assert found.sums.tolist() == joint.sum(axis=0).tolist()
    assert run.result("bank").matrix.tolist() == found.matrix.tolist()


def test_for_components_the_constant_is_known_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    run, people = run_without_noise(monkeypatch, "pca")
    plan = run.plan
    assert plan.size == 4 and plan.bound_of_all_but(None) == plan.columns.shape_of_all_but(None).norm_squared
    release = perturbed_release(run.result())
    assert release.matrix[-1, -1] == 200 * release.label.constant(4096) ** 2
    means = np.column_stack(list(people.values())).mean(axis=0) / 2
    np.testing.assert_allclose(release.plain_moments().scatter().mean, means, atol=1e-3)


@pytest.mark.parametrize("task", ["pca", "classification"])
def test_the_guarantee_is_its_own_and_rests_on_nobody_else(task: Task) -> None:
    tables, _, _ = tables_of(100, task)
    source = local_federation(tables)
    run = source.run(local_session, requested(LocalOptions, task, 1.0, delta=1e-5))
    by_name = {one.observer.name: one for one in run.plan.guarantees}
    assert 0.99 < by_name["server"].epsilon <= 1.0
    assert all(
        one.assumption == f"no owner discloses the noise on its own columns{UNCHECKED}"
        for one in by_name.values()
    )
    # Against a party the others' part is replaced: at most twice its norm.
    assert by_name["party:bank"].epsilon < 2.2
    plan = run.plan
    less = replace(plan, sigma_squared=plan.sigma_squared * Fraction(99, 100))
    assert account(less.event(plan.bound_of_all_but(None)), 1e-5).epsilon > 1.0


def test_a_large_enough_epsilon_lets_something_through() -> None:
    for kind, task, least in (
        (LogisticRegression, "classification", 0.85),
        (LinearRegression, "regression", 0.4),
        (LogisticRegression, "three", 0.6),
    ):
        tables, people, labels = tables_of(20_000, task)
        model = kind(epsilon=16.0, method="local").fit(local_federation(tables))
        assert model.score(people, labels) > least


def test_noise_alone_shows_no_direction_and_perturbed_rows_less_than_a_release() -> None:
    tables, people, _ = tables_of(3000, "pca")
    shared = PCA(1, epsilon=1.0, method="spca").fit(local_federation(tables)).captured_variance(people)
    with pytest.warns(UserWarning, match="directions stand out of the noise"):
        alone = PCA(1, epsilon=1.0, method="local").fit(local_federation(tables)).captured_variance(people)
    assert shared > 0.45 > alone + 0.05
    # Thirty rows of four columns at ε = 1: the spectrum of noise is wide, and none of it is believed.
    tables, _, _ = tables_of(30, "pca")
    with pytest.warns(UserWarning, match="0 of 4 directions"):
        assert PCA(epsilon=1.0, method="local").fit(local_federation(tables)).learnable_rank_ == 0


@pytest.mark.parametrize(
    ("module", "at", "array", "added", "said"),
    [
        (local_perturbation, "rows", "rows", 1 << 50, "no perturbed row of this plan has"),
        (session, "release", "moments", np.eye(5, 4, k=1, dtype=np.int64), "not symmetric"),
    ],
)
def test_rows_past_what_noise_can_reach_and_bent_matrices_are_refused(
    monkeypatch: Any, module: Any, at: str, array: str, added: Any, said: str
) -> None:
    tables, _, _ = tables_of(50, "pca")
    original = module.tell

    async def swollen(party: Party, to: str, step: str, message: Message) -> None:
        if step.startswith(at):
            message = type(message)(arrays={array: message.arrays[array] + added})
        await original(party, to, step, message)

    monkeypatch.setattr(module, "tell", swollen)
    with pytest.raises(RemoteProtocolError, match=said):
        local_federation(tables).run(local_session, requested(LocalOptions, "pca", 1.0, delta=1e-5))


def test_a_missing_label_is_refused_and_so_little_privacy_needs_no_computing_parties() -> None:
    tables, _, _ = tables_of(50, "pca")
    source = local_federation(tables)
    with pytest.raises(PlanError, match="needs a label"):
        LogisticRegression(method="local").fit(source)
    assert source.runs == []
    tables, _, _ = tables_of(50, "pca")
    roles: dict[str, Any] = {"active": None, "computing_parties": ("server", "bank", "shop")}
    plan = planned_on(requested(LocalOptions, task="pca", epsilon=1.0, delta=1e-5), tables, **roles)
    release = plan.release("bank", run="r", reproducible=False)
    assert release.share_holders == () and release.shown_to == ("server",)


FALSE_ALARM_SIGMAS = 6.2
MANY = 4000


def rows_of(rows: Any = MANY, seed: int = 0) -> Any:
    """Six columns with one strong and one weaker direction."""
    rng = np.random.default_rng(seed)
    strong, weak = rng.uniform(-1, 1, (2, rows))
    mixed = np.column_stack([strong, strong, 0.5 * weak, strong, 0.5 * weak, np.zeros(rows)])
    return np.clip(mixed + 0.05 * rng.normal(size=mixed.shape), -1, 1)


def spca_tables(rows: Any, parties: Any = ("bank", "shop", "clinic")) -> Any:
    tables = []
    for party, columns in zip(parties, np.array_split(np.arange(rows.shape[1]), len(parties)), strict=True):
        text = "id='n'\n" + "".join(f"[columns.c{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in columns)
        tables.append(Table.from_arrays(party, {f"c{i}": rows[:, i] for i in columns}, Schema.parse(text)))
    return tables


def named(rows: Any) -> Any:
    return {f"c{i}": rows[:, i] for i in range(rows.shape[1])}


def spca_federation(rows: Any = None, **more: Any) -> Any:
    rows = rows_of() if rows is None else rows
    return Federation(spca_tables(rows), budget=(50.0, 1e-5), public=True, noise_seed=7, **more)


@pytest.mark.parametrize("gamma", [4, 64])
def test_a_coarse_grid_finds_the_same_directions(gamma: int) -> None:
    rows = rows_of()
    model = PCA(2, epsilon=1.0, method="spca", options={"gamma": gamma}).fit(spca_federation(rows))
    best = Exact(2).fit(rows)
    captured = model.captured_variance(named(rows))
    assert captured == pytest.approx(best.explained_variance_ratio_.sum(), rel=0.02 if gamma > 4 else 0.1)


def test_retry_keeps_the_bound_of_the_paper_in_the_plan_and_is_compared() -> None:
    spec = TrainingSpec("pca", 1.0, delta=1e-5, options=SpcaOptions(gamma=16))
    plan = planned_on(spec, spca_federation().tables.values(), active=None)
    assert plan.rounding == "retry" and plan.to_data()["rounding"] == "retry"
    assert plan.shape_of_all_but(None).norm_squared <= 16**2 + 6
    plain = requested(MomentsOptions, "pca", 1.0, delta=1e-5)
    retried = requested(SpcaOptions, "pca", 1.0, delta=1e-5)
    assert plain.to_data() != retried.to_data()


def test_grids_too_coarse_labels_and_paper_mode_on_private_data_are_refused() -> None:
    with pytest.raises(PlanError, match="'retry' takes coarser grids"):
        PCA(method="spca", options={"gamma": 64, "rounding": "nearest"}).fit(spca_federation())

    with pytest.raises(JobError, match="cannot do classification"):
        LogisticRegression(method="spca").fit(spca_federation())
    private = Federation(spca_tables(rows_of(100)), budget=(50.0, 1e-5))
    with pytest.raises(PlanError, match="public"):
        PCA(method="spca", options={"calibration": "paper"}).fit(private)
    assert private.runs == []
    with pytest.raises(PlanError, match="there is no plan of it"):
        TrainingSpec("pca", 1.0, options=SpcaOptions(calibration="paper")).check()


def test_more_colluders_leave_a_party_no_cheaper() -> None:
    wide = np.column_stack([rows_of(), rows_of(seed=1)])
    names = ("a", "b", "c", "d", "e")
    epsilons = []
    for threshold in (1, 2):
        roles: dict[str, Any] = {"threshold": threshold, "computing_parties": names[: 2 * threshold + 1]}
        source = Federation(spca_tables(wide, names), budget=(50.0, 1e-5), noise_seed=3, **roles)
        stated = PCA(1, epsilon=1.0, method="spca").fit(source).privacy_
        assert all(1.0 < one.epsilon < 2.2 for one in stated if one.unit.name == "others-part")
        epsilons.append(max(one.epsilon for one in stated if one.observer.name.startswith("party")))
    assert epsilons[0] <= epsilons[1]


def test_clients_may_hand_their_shares_to_keepers_that_own_nothing() -> None:
    """Federated analytics: the clients deal and leave, three others multiply, the server reads."""
    source = spca_federation(computing_parties=("north", "south", "west"))
    run = source.run(moments_session, requested(SpcaOptions, "pca", 1.0, delta=1e-5, gamma=64), record=True)
    heard = {member: {one.step.split(" ")[0] for one in seen} for member, seen in run.outcome.seen.items()}
    assert {"columns", "noise"} <= heard["north"] and not {"columns", "noise"} & heard["bank"]
    assert "moments" in heard["server"] and "columns" not in heard["server"]
    model = PCA(2).fit(run.release)
    assert model.captured_variance(named(rows_of())) > 0.9
    assert all("computing party" in str(one) for one in run.plan.guarantees)


def test_captured_variance_is_scikit_learns_without_noise_and_all_directions_capture_everything() -> None:
    rows = rows_of()
    model = PCA(2, method="non-private").fit(spca_federation(rows))
    exact = Exact(2).fit(rows)
    assert model.captured_variance(named(rows)) == pytest.approx(
        exact.explained_variance_ratio_.sum(), rel=1e-4
    )
    rows = rows_of(300)
    model = PCA(6, method="non-private").fit(spca_federation(rows))
    assert model.captured_variance(named(rows)) == pytest.approx(1.0)
    assert model.captured_variance(np.empty((0, 6))) == 0.0


def test_paper_mode_promises_nothing_and_rounding_is_not_taken_for_directions() -> None:
    paper = {"gamma": 16, "calibration": "paper"}
    model = PCA(2, epsilon=1.0, method="spca", options=paper).fit(spca_federation())
    assert tuple(model.privacy_) == () and "No guarantee" in str(model.privacy_)
    assert model.captured_variance(named(rows_of())) > 0.9
    # At γ = 4 rounding lifts every eigenvalue by up to n/4γ², far past the noise: two directions are there.
    model = PCA(epsilon=8.0, method="spca", options={"gamma": 4}).fit(spca_federation())
    assert model.learnable_rank_ <= 3
    assert np.linalg.eigvalsh(model.releases_[0].gram).min() > 2 * model.releases_[0].noise


def test_the_papers_gram_is_right_on_average() -> None:
    rows = rows_of(2000)
    gathered = gather(spca_federation(rows), TrainingSpec("pca", 1.0, delta=1e-5))
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
