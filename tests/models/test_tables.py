"""Margins and tables of a release, what is said of its columns, the matched rule, and trees."""

import itertools
import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from learn_releases import release_of
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression as Central
from sklearn.metrics import roc_auc_score
from tables_people import AGE, BANK, GAMMA, LABEL, OWNER, SHOP, coded, people, release_with
from typed import there, untyped

from colonnade import GradientBoostedTrees, LogisticRegression, MomentRelease, errors
from colonnade.data.encoder import Encoder, Quantizer
from colonnade.data.files import open_file
from colonnade.data.kinds import NumericColumn
from colonnade.data.levels import BinnedColumn
from colonnade.models.fitting import PAYS_FROM, choose_rule, strength_of
from colonnade.models.tables import matched, synthetic
from colonnade.models.tables.margins import description
from colonnade.models.tables.matched import MOST_STRETCH, PEOPLE, matched_rule
from colonnade.models.tables.synthetic import TableModel, draw_levels, values_of_levels
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9
RAW, RISK = people()
NAMES = ("age", "job", "pay", "owner")


@pytest.fixture(scope="module")
def release() -> MomentRelease:
    return release_with(RAW, RISK, noise=2.0)


def counted(raw: Any, first: str, second: str) -> np.ndarray[Any, Any]:
    codes = coded(raw)
    sizes = {column.name: len(untyped(column).levels) for column in (*BANK, *SHOP)}
    table = np.zeros((sizes[first], sizes[second]))
    np.add.at(table, (codes[first], codes[second]), 1)
    return table


def test_without_noise_counts_of_two_columns_and_by_class_are_those_of_the_people() -> None:
    margins = release_with(RAW, RISK).margins()
    for first, second in itertools.combinations(range(4), 2):
        found, spread = margins.pair_counts(first, second)
        np.testing.assert_allclose(found, counted(RAW, NAMES[first], NAMES[second]), atol=0.5)
        assert spread.max() == 0
    for place, name in enumerate(NAMES):
        found, _ = margins.level_counts(place)
        codes = coded(RAW)[name]
        exact = [np.bincount(codes[kind == RISK], minlength=found.shape[1]) for kind in (0, 1)]
        np.testing.assert_allclose(found, exact, atol=0.5)


def test_the_noise_of_two_way_counts_is_as_stated() -> None:
    exact, scores = counted(RAW, "age", "pay"), []
    for seed in range(40):
        cells, spread = release_with(RAW, RISK, noise=2.0, seed=seed).margins().pair_counts(0, 2)
        scores.append(((cells - exact) / spread).ravel())
    # Cells of one table share noise, so each cell is judged over the releases alone.
    squares = (np.array(scores) ** 2).sum(axis=0)
    worst = 2 * min(stats.chi2.cdf(squares, 40).min(), stats.chi2.sf(squares, 40).min())
    assert worst * len(squares) > FALSE_ALARM
    assert stats.chi2.sf(9 * squares, 40).min() < FALSE_ALARM, "a third too small would be noticed"


def distance(table: Any, raw: Any) -> float:
    found = []
    for first, second in itertools.combinations(NAMES, 2):
        one, two = counted(table, first, second), counted(raw, first, second)
        found.append(0.5 * np.abs(one / one.sum() - two / two.sum()).sum())
    return float(np.mean(found))


def test_a_table_agrees_with_the_people_in_pairs_and_with_the_class(release: MomentRelease) -> None:
    table = release.synthesize(20_000, seed=1)
    shuffled = {name: np.roll(values, 7 * place) for place, (name, values) in enumerate(RAW.items())}
    assert distance(table, RAW) < 0.05
    assert distance(shuffled, RAW) > 0.15
    for kind, name in enumerate(("low", "high")):
        own, true = table["risk"] == name, untyped(kind == RISK)
        assert abs(own.mean() - true.mean()) < 0.02
        assert abs((table["owner"][own] == "yes").mean() - (RAW["owner"][true] == "yes").mean()) < 0.05


def test_a_table_without_a_label_has_the_columns_alone() -> None:
    table = release_with(RAW, None, noise=2.0).synthesize(5000, seed=1)
    assert table.column_names == NAMES and distance(table, RAW) < 0.07


def test_a_table_is_in_the_parties_own_values(release: MomentRelease) -> None:
    table = release.synthesize(3000, seed=3)
    assert table.column_names == (*NAMES, "risk") and len(table) == 3000
    assert table["age"].dtype == np.int64 and table["age"].min() >= 18 and table["age"].max() <= 90
    assert set(table["job"]) == {"clerk", "farmer", None}
    assert 0.05 < np.isnan(table["pay"]).mean() < 0.15 and np.nanmax(table["pay"]) <= 9
    assert release.features(table).shape == (3000, release.columns)


def test_drawn_numbers_lie_in_the_bin_they_were_drawn_for() -> None:
    for column in (
        AGE,
        SHOP[0],
        BinnedColumn("x", (0.1, 0.2, 0.3)),
        BinnedColumn("x", (0, 10), transform="log1p"),
    ):
        assert isinstance(column, BinnedColumn)
        codes = np.repeat(np.arange(len(column.levels), dtype=np.int32), 500)
        values = values_of_levels(column, codes, SeededRandomness(1))
        again = np.searchsorted(column.edges, values, side="right")
        again[np.isnan(values)] = len(column.edges) + 1
        assert np.array_equal(again, codes)
        assert np.nanmin(values) >= column.ends[0] and np.nanmax(values) <= column.ends[-1]


def test_a_seed_draws_the_same_people_and_none_draws_others(release: MomentRelease) -> None:
    one, two, other = (release.synthesize(200, seed=seed) for seed in (5, 5, None))
    assert one.manifest == two.manifest and one["age"].tolist() == two["age"].tolist()
    assert other["age"].tolist() != one["age"].tolist()
    again = release.synthesize(200, seed=other.manifest["seed"])
    assert again["pay"].tolist() == pytest.approx(other["pay"].tolist(), nan_ok=True)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_saved_table_is_read_back_as_it_was(release: MomentRelease, tmp_path: Path, suffix: str) -> None:
    table = release.synthesize(500, seed=2)
    target = tmp_path / f"people.{suffix}"
    alongside = table.save(target)
    assert json.loads(alongside.read_text()) == json.loads(json.dumps(dict(table.manifest)))
    rows = open_file(target, party="reader")
    assert list(rows.fields) == list(table.column_names)
    batch = next(rows.batches(list(table.column_names), size=500, floats={"age", "pay"}))
    read = dict(zip(table.column_names, batch.columns, strict=True))
    for name, codes in coded(table).items():
        assert np.array_equal(coded({**{key: table[key] for key in NAMES}, name: read[name]})[name], codes)
    with pytest.raises(errors.NameInUse):
        table.save(target)


def test_parquet_has_numbers_text_and_null(release: MomentRelease, tmp_path: Path) -> None:
    release.synthesize(500, seed=2).save(tmp_path / "t.parquet")
    session = duckdb.connect()
    kinds = session.sql(f"describe select * from '{tmp_path / 't.parquet'}'").fetchall()
    assert [kind[1] for kind in kinds] == ["BIGINT", "VARCHAR", "DOUBLE", "VARCHAR", "VARCHAR"]
    missing = session.execute(f"select count(*) from '{tmp_path / 't.parquet'}' where pay is null").fetchone()
    assert missing is not None and missing[0] > 10


def test_the_manifest_says_where_a_table_comes_from_and_what_not_to_do(release: MomentRelease) -> None:
    manifest = release.synthesize(100).manifest
    assert manifest["extra_epsilon"] == 0 and manifest["release"]["people"] == release.rows
    assert manifest["guarantees"] == [] and manifest["fit"]["reached_the_noise"]
    assert any("intervals" in line for line in manifest["not_to_do"])
    assert any("three columns" in line for line in manifest["not_to_do"])


def test_a_fit_stops_at_the_noise_and_goes_on_without_it(release: MomentRelease) -> None:
    stopped = release.table_model().fit
    assert stopped.reached and 0.3 < stopped.residual <= 1.0
    assert stopped.start > 20 * stopped.residual


@pytest.mark.parametrize("rows", [0, -1, 10**9, 2.5, True])
def test_numbers_of_rows_that_no_table_has_are_refused(release: MomentRelease, rows: Any) -> None:
    with pytest.raises(errors.InputError, match="from 1 to 10,000,000 rows"):
        release.synthesize(rows)


def test_numbers_that_are_not_in_bins_are_refused_by_name() -> None:
    plain = NumericColumn("age", low=18, high=90)
    parties = [("bank", Encoder((plain, OWNER), "circle"), {"age": RAW["age"], "owner": RAW["owner"]})]
    made = release_of(parties, LABEL, RISK)
    with pytest.raises(errors.DataError, match=r"no table can be made of age: .*leave them out: owner"):
        made.synthesize(10)
    assert made.select(["owner"]).synthesize(10).column_names == ("owner", "risk")


def test_a_release_that_is_all_noise_is_refused() -> None:
    raw, risk = people(60)
    with pytest.raises(errors.DrownedByNoise, match="all that is said of the columns is noise"):
        release_with(raw, risk, noise=40.0).synthesize(10)
    with pytest.raises(errors.DrownedByNoise, match="every column"):
        release_with(*people(6000), noise=600.0).select(["job", "age"]).synthesize(10)


def test_a_fit_that_comes_to_nothing_is_refused(release: MomentRelease, monkeypatch: Any) -> None:
    monkeypatch.setattr(synthetic, "RATE", 0.0)
    with pytest.raises(errors.NotConverged, match="no table fits this release"):
        release.synthesize(10)


def test_a_fit_that_is_cut_short_says_so(release: MomentRelease) -> None:
    margins = release.margins()
    short = TableModel(margins, synthetic.fit_mixture(margins, steps=30), {})
    assert not short.fit.reached and "stopped after 30 steps" in short.notes[0]


def test_where_a_table_cannot_be_written_nothing_is(release: MomentRelease, tmp_path: Path) -> None:
    table = release.synthesize(10)
    with pytest.raises(errors.InputError, match=r"\.parquet or \.csv"):
        table.save(tmp_path / "table.xlsx")
    with pytest.raises(errors.CannotWrite, match="there is no folder"):
        table.save(tmp_path / "none" / "table.csv")
    assert list(tmp_path.iterdir()) == []


FEW, FEW_RISK = people(6000)
QUIET = description(release_with(FEW, FEW_RISK).margins())
COLUMNS = {column["column"]: column for column in QUIET["columns"]}
PAIRS = {tuple(pair["columns"]): pair for pair in QUIET["pairs"]}


def test_without_noise_shares_are_those_of_the_people() -> None:
    for name, codes in coded(FEW).items():
        shares = [level["share"] for level in COLUMNS[name]["levels"]]
        np.testing.assert_allclose(
            shares, np.bincount(codes, minlength=len(shares)) / len(FEW_RISK), atol=1e-3
        )


def test_without_noise_correlations_are_those_of_the_middles_of_bins() -> None:

    codes, middles = coded(FEW), there(AGE.middles)
    exact = np.corrcoef(middles[codes["age"]], codes["owner"])[0, 1]
    assert PAIRS["age", "owner"]["correlation"] == pytest.approx(exact, abs=0.005)
    assert COLUMNS["age"]["mean"] == pytest.approx(middles[codes["age"]].mean(), abs=0.1)


def test_without_noise_weight_of_evidence_and_information_value_are_as_defined() -> None:
    codes = coded(FEW)["owner"]
    counts = [np.bincount(codes[kind == FEW_RISK], minlength=2) for kind in (0, 1)]
    shares = [each / each.sum() for each in counts]
    weights = np.log(shares[1] / shares[0])
    found = [one["weight"] for one in COLUMNS["owner"]["weight_of_evidence"]]
    np.testing.assert_allclose(found, weights, atol=0.01)
    value = float((shares[1] - shares[0]) @ weights)
    assert COLUMNS["owner"]["information_value"] == pytest.approx(value, abs=0.01)


def test_columns_that_are_foretold_have_inflated_variance_and_cramers_v() -> None:
    assert all(column["variance_inflation"] >= 1 for column in QUIET["columns"])
    shuffled = {**FEW, "owner": np.random.default_rng(1).permutation(FEW["owner"])}
    alone = {one["column"]: one for one in description(release_with(shuffled, FEW_RISK).margins())["columns"]}
    assert alone["owner"]["variance_inflation"] < 1.05 < COLUMNS["owner"]["variance_inflation"]
    assert PAIRS["age", "owner"]["association"] > 0.3


def test_figures_are_off_by_as_much_as_they_say() -> None:
    off: dict[str, list[float]] = {"mean": [], "correlation": [], "information_value": []}
    for seed in range(20):
        facts = description(release_with(FEW, FEW_RISK, noise=4.0, seed=seed).margins())
        age = next(column for column in facts["columns"] if column["column"] == "age")
        owner = next(column for column in facts["columns"] if column["column"] == "owner")
        pair = next(pair for pair in facts["pairs"] if pair["columns"] == ["age", "owner"])
        for name, found, true in (
            ("mean", age, COLUMNS["age"]),
            ("correlation", pair, PAIRS["age", "owner"]),
            ("information_value", owner, COLUMNS["owner"]),
        ):
            off[name].append((found[name] - true[name]) / found[f"{name}_noise"])
    for name, scores in off.items():
        # 20 scores of deviation 1 have one outside of these with a probability below 1e-6.
        assert 0.35 < np.std(scores) < 2.2, (name, np.std(scores))


def test_a_level_that_noise_hides_has_no_weight_of_evidence() -> None:
    facts = description(release_with(FEW, FEW_RISK, noise=40.0).margins())
    weights = [one["weight"] for column in facts["columns"] for one in column["weight_of_evidence"]]
    assert None in weights


def test_without_noise_the_matched_rule_is_logistic_regression() -> None:
    release = release_with(FEW, FEW_RISK)
    features = release.features(FEW)
    central = Central(C=1e6, max_iter=2000).fit(features, FEW_RISK)
    matched = LogisticRegression(rule="matched").fit(release)
    squared = LogisticRegression(rule="least-squares").fit(release)
    scores = central.decision_function(features)
    off = [np.abs(model.decision_function(FEW) - scores).mean() for model in (matched, squared)]
    assert off[0] < 0.1 * np.abs(scores).mean() and off[0] < 0.5 * off[1]


@pytest.mark.parametrize(("noise", "ridge"), [(0.0, 0.0), (1.0, 0.0), (1.0, 300.0)])
def test_the_matched_rule_does_not_depend_on_the_order_of_its_sums(
    noise: float, ridge: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same synthetic people in another order are other sums in the last digits, and the same rule."""
    model = release_with(FEW, FEW_RISK, noise=noise).table_model()
    order = np.random.default_rng(1).permutation(PEOPLE)

    def shuffled(*arguments: Any) -> Any:
        levels, classes = draw_levels(*arguments)
        return [codes[order] for codes in levels], classes[order]

    first = matched_rule(model.margins, model.fit, ridge=ridge)
    monkeypatch.setattr(matched, "draw_levels", shuffled)
    other = matched_rule(model.margins, model.fit, ridge=ridge)
    np.testing.assert_allclose(other.coefficients, first.coefficients, rtol=1e-9, atol=1e-11)
    assert (other.intercept, other.stretch) == pytest.approx((first.intercept, first.stretch), rel=1e-9)


def test_probabilities_of_the_matched_rule_have_the_released_mean() -> None:
    model = LogisticRegression(rule="matched").fit(release_with(FEW, FEW_RISK, noise=1.0))
    assert model.predict_proba(FEW)[:, 1].mean() == pytest.approx(FEW_RISK.mean(), abs=0.01)


def test_scores_that_a_penalty_holds_back_are_stretched_to_what_was_released_of_them() -> None:
    model = release_with(FEW, FEW_RISK, noise=1.0).table_model()
    held, plain = (matched_rule(model.margins, model.fit, ridge=ridge) for ridge in (300.0, 0.0))
    assert 1.0 <= plain.stretch < 1.05 < held.stretch <= MOST_STRETCH
    levels = coded(FEW)
    parts = [column.codes[levels[column.name]] for column in model.margins.columns]
    scores = np.concatenate(parts, axis=1) @ held.coefficients

    def loss(odds: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0.0, np.where(FEW_RISK == 1, -odds, odds)).mean())

    assert loss(scores + held.intercept) < loss(scores / held.stretch + held.intercept) - 0.005


def test_the_rule_is_chosen_by_how_the_classes_stand_out_of_the_noise() -> None:
    quiet, loud = (release_with(FEW, FEW_RISK, noise=noise) for noise in (2.0, 60.0))
    assert strength_of(quiet.margins()) > PAYS_FROM > strength_of(loud.margins())
    assert choose_rule(quiet).name == "matched" and f"it pays from {PAYS_FROM:g}" in choose_rule(quiet).reason
    assert choose_rule(loud).name == "least-squares" and "expected to pay" in choose_rule(loud).reason
    assert LogisticRegression().fit(quiet).rule_ == choose_rule(quiet)
    assert LogisticRegression(ridge=1.0).fit(quiet).rule_.name == "least-squares"


def test_numbers_on_a_circle_and_three_classes_keep_least_squares() -> None:
    encoder = Encoder((NumericColumn("age", 18, 90), OWNER), "circle")
    release = release_of([("bank", encoder, {"age": FEW["age"], "owner": FEW["owner"]})], LABEL, FEW_RISK)
    assert "age are coded as numbers" in choose_rule(release).reason
    assert LogisticRegression().fit(release).rule_.name == "least-squares"
    with pytest.raises(errors.InputError, match="'matched' cannot be had"):
        LogisticRegression(rule="matched").fit(release)
    with pytest.raises(errors.InputError, match="Did you mean 'matched'"):
        LogisticRegression(rule="match").fit(release)


MANY, _ = people(8000)


def crossed(raw: Any) -> Any:
    """A class that no line tells: whether one of two, and not both, are so."""
    old, owns = np.asarray(raw["age"]) >= 45, np.asarray(raw["owner"]) == "yes"
    return (old != owns).astype(np.int64)


def conditional(raw: Any, risk: NDArray[np.int64], *, noise: float = 0.5) -> MomentRelease:
    """Moments by class as a trusted party would make them, with rounded normal noise."""
    encoders = (("bank", Encoder(BANK, "circle")), ("shop", Encoder(SHOP, "circle")))
    quantizers = [Quantizer(encoder, attributes_total=4, gamma=GAMMA) for _, encoder in encoders]
    parts = [one.quantize({c.name: raw[c.name] for c in one.encoder.columns}) for one in quantizers]
    rows = np.column_stack([*parts, np.full(len(risk), LABEL.constant(GAMMA))]).astype(np.float64)
    size, rng = rows.shape[1], np.random.default_rng(1)
    matrix = np.zeros((2 * size, 2 * size), dtype=np.int64)
    for kind in (0, 1):
        own = rows[risk == kind]
        drawn = np.triu(rng.normal(0.0, noise * GAMMA**2, (size, size)), 1)
        span = slice(kind * size, (kind + 1) * size)
        matrix[span, span] = np.rint(own.T @ own + drawn + drawn.T).astype(np.int64)
    mu = Fraction(round(noise**2 * GAMMA**4))
    return replace(release_with(raw, risk), matrix=matrix, gamma=GAMMA, mu=mu, conditional=True)


@pytest.fixture(scope="module")
def trees() -> GradientBoostedTrees:
    pytest.importorskip("lightgbm")
    return GradientBoostedTrees(rows=12_000, rounds=80, rate=0.2).fit(conditional(MANY, crossed(MANY)))


def test_trees_tell_what_two_columns_say_together_and_a_line_does_not(trees: GradientBoostedTrees) -> None:
    new, _ = people(3000, seed=9)
    truth = crossed(new)
    linear = LogisticRegression(rule="matched").fit(conditional(MANY, crossed(MANY)))
    assert roc_auc_score(truth, linear.decision_function(new)) < 0.75
    assert roc_auc_score(truth, trees.decision_function(new)) > 0.85
    assert trees.score(new, np.array(["low", "high"])[truth]) > 0.75
    assert trees.check_["auc"] > trees.check_["linear_auc"] + 0.1 and trees.advice_ == ""


def test_importance_is_of_the_columns(trees: GradientBoostedTrees) -> None:
    assert set(list(trees.importance_)[:2]) == {"age", "owner"}
    assert sum(trees.importance_.values()) == pytest.approx(1)
    assert list(trees.importance_.values()) == sorted(trees.importance_.values(), reverse=True)


def test_where_a_line_does_as_well_they_say_so() -> None:
    pytest.importorskip("lightgbm")
    raw, risk = people(4000)
    model = GradientBoostedTrees(rows=6000, rounds=30).fit(conditional(raw, risk, noise=3.0))
    assert "The linear rule is expected to be as good" in model.advice_


def test_a_plain_release_is_refused_with_what_to_do() -> None:
    with pytest.raises(errors.InputError, match="conditional = true"):
        GradientBoostedTrees().fit(release_with(*people(500), noise=1.0))


def test_without_the_extra_its_name_is_said(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    raw, risk = people(500)
    with pytest.raises(errors.NotInstalled, match=r"colonnade\[trees\]"):
        GradientBoostedTrees().fit(conditional(raw, risk))


@pytest.mark.parametrize("arguments", [{"rows": 0}, {"rounds": 10**9}, {"rows": True}])
def test_a_number_of_rows_or_rounds_is_whole_and_in_range(arguments: dict[str, Any]) -> None:
    raw, risk = people(500)
    with pytest.raises(errors.InputError, match="from 1 to 10,000,000"):
        GradientBoostedTrees(**arguments).fit(conditional(raw, risk))
