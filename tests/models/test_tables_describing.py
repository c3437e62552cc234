"""What is said of columns: exact without noise, and with it as far off as it says."""

import numpy as np
import pytest
from tables_people import coded, people, release_with
from typed import there, untyped

from colonnade.models.tables.margins import description

RAW, RISK = people(6000)
QUIET = description(release_with(RAW, RISK).margins())
COLUMNS = {column["column"]: column for column in QUIET["columns"]}
PAIRS = {tuple(pair["columns"]): pair for pair in QUIET["pairs"]}


def test_without_noise_shares_are_those_of_the_people() -> None:
    for name, codes in coded(RAW).items():
        shares = [level["share"] for level in COLUMNS[name]["levels"]]
        np.testing.assert_allclose(shares, np.bincount(codes, minlength=len(shares)) / len(RISK), atol=1e-3)


def test_without_noise_correlations_are_those_of_the_middles_of_bins() -> None:
    from tables_people import AGE

    codes, middles = coded(RAW), there(AGE.middles)
    exact = np.corrcoef(middles[codes["age"]], codes["owner"])[0, 1]
    assert PAIRS["age", "owner"]["correlation"] == pytest.approx(exact, abs=0.005)
    assert COLUMNS["age"]["mean"] == pytest.approx(middles[codes["age"]].mean(), abs=0.1)


def test_without_noise_weight_of_evidence_and_information_value_are_as_defined() -> None:
    codes = coded(RAW)["owner"]
    shares = [
        np.bincount(codes[kind == RISK], minlength=2) / (untyped(kind == RISK)).sum() for kind in (0, 1)
    ]
    weights = np.log(shares[1] / shares[0])
    found = [one["weight"] for one in COLUMNS["owner"]["weight_of_evidence"]]
    np.testing.assert_allclose(found, weights, atol=0.01)
    assert COLUMNS["owner"]["information_value"] == pytest.approx(
        float((shares[1] - shares[0]) @ weights), abs=0.01
    )


def test_columns_that_are_foretold_have_inflated_variance_and_cramers_v() -> None:
    assert all(column["variance_inflation"] >= 1 for column in QUIET["columns"])
    shuffled = {**RAW, "owner": np.random.default_rng(1).permutation(RAW["owner"])}
    alone = {one["column"]: one for one in description(release_with(shuffled, RISK).margins())["columns"]}
    assert alone["owner"]["variance_inflation"] < 1.05 < COLUMNS["owner"]["variance_inflation"]
    assert PAIRS["age", "owner"]["association"] > 0.3


def test_figures_are_off_by_as_much_as_they_say() -> None:
    off: dict[str, list[float]] = {"mean": [], "correlation": [], "information_value": []}
    for seed in range(20):
        facts = description(release_with(RAW, RISK, noise=4.0, seed=seed).margins())
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
    facts = description(release_with(RAW, RISK, noise=40.0).margins())
    weights = [one["weight"] for column in facts["columns"] for one in column["weight_of_evidence"]]
    assert None in weights
