"""Comparisons: the same people for everybody, and exact scores on public data only."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import r2_score, roc_auc_score
from typed import there

from colonnade import Schema, Table
from colonnade.errors import InputError, PlanError
from colonnade.evaluation.open_rows import HeldOut, split
from colonnade.lab.comparison import compare, comparison_facts, field_of
from colonnade.methods.table import METHODS
from colonnade.privacy.paper import LABEL as PAPER
from colonnade.report.comparison import comparison_page, comparison_table, comparison_text, ties_in
from colonnade.report.record import ComparisonRecord, ComparisonRow

LABEL = 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}'
NUMBER = 'label = {column = "y", kind = "real", low = 0, high = 10}'


def tables(rows: int = 600, *, label: str = LABEL, shuffled: bool = False) -> list[Table]:
    rng = np.random.default_rng(2)
    age, spent = rng.uniform(0, 90, rows), rng.uniform(0, 10, rows)
    value = age / 9
    labels = value if label == NUMBER else np.array(["no", "yes"])[(value > 5).astype(int)]
    bank = Schema.parse(f'id = "n"\ncolumns.age = {{kind = "numeric", low = 0, high = 90}}\n{label}')
    shop = Schema.parse('id = "n"\ncolumns.spent = {kind = "numeric", low = 0, high = 10}')
    names = np.array([f"C{i}" for i in range(rows)])
    order = rng.permutation(rows) if shuffled else np.arange(rows)
    return [
        Table.from_arrays("bank", {"age": age, "y": labels}, bank, ids=names),
        Table.from_arrays("shop", {"spent": spent[order]}, shop, ids=names[order]),
    ]


@given(st.integers(0, 5), st.booleans())
def test_a_split_has_the_same_people_in_the_same_order_everywhere(seed: int, shuffled: bool) -> None:
    training, testing = split(tables(40, shuffled=shuffled), seed=seed, share=0.25)
    for part, size in ((training, 30), (testing, 10)):
        ids = [list(table.ids()) for table in part]
        assert ids[0] == ids[1] and len(ids[0]) == size
    assert not set(training[0].ids()) & set(testing[0].ids())


def test_a_split_follows_its_seed_and_leaves_out_whom_one_party_lacks() -> None:
    bank, shop = tables(40)
    found = [tuple(split([bank, shop], seed=seed, share=0.25)[1][0].ids()) for seed in (0, 1, 0)]
    assert found[0] == found[2] != found[1]
    training, testing = split([bank, shop.take(range(20))], seed=0, share=0.25)
    assert {*training[0].ids(), *testing[0].ids()} == {f"C{i}" for i in range(20)}
    for share in (0.0, 1.0, -0.2):
        with pytest.raises(InputError, match="between 0 and 1"):
            split([bank, shop], seed=0, share=share)


@pytest.fixture(scope="module")
def found() -> ComparisonRecord:
    return compare(
        tables(),
        task="classification",
        epsilons=(1.0, 8.0),
        methods=("moments", "non-private", "dp-sgd"),
        delta=1e-5,
        seeds=2,
        noise_seed=1,
    )


def test_every_method_is_scored_at_every_epsilon_and_seed(found: ComparisonRecord) -> None:
    assert [(row.method, row.epsilon) for row in found.rows] == [
        ("moments", 1.0),
        ("moments", 8.0),
        ("non-private", None),
        ("dp-sgd", 1.0),
        ("dp-sgd", 8.0),
    ]
    assert all(len(row.scores) == 2 and not row.failures for row in found.rows)
    assert (found.trained_on, found.held_out) == (480, 120)
    assert 0.5 <= there(found.constant) < 0.62, "the share of the commonest class"
    by_name = {(row.method, row.epsilon): row for row in found.rows}
    exact = by_name["non-private", None]
    assert there(exact.mean) > 0.97 and exact.guarantees == []
    assert there(by_name["moments", 8.0].mean) > 0.8
    assert by_name["moments", 1.0].bytes and by_name["dp-sgd", 1.0].bytes is None
    assert not by_name["moments", 1.0].trusted and by_name["dp-sgd", 1.0].trusted
    for (_, epsilon), row in by_name.items():
        server = [there(item.epsilon) for item in row.guarantees if item.observer in ("server", "reader")]
        assert all(epsilon is not None and value <= epsilon for value in server), row.method


def test_facts_tables_and_page_say_the_same(found: ComparisonRecord) -> None:
    facts = comparison_facts(found, name="Shops <&> banks")
    table = comparison_table(facts)
    assert table[0] == ("method", "ε = 1", "ε = 8", "seconds", "sent")
    moments = next(row for row in found.rows if row.method == "moments" and row.epsilon == 8.0)
    text, page = comparison_text(facts), comparison_page(facts)
    # No more digits than the splits let be said.
    shown = f"{moments.mean:.2f} ± {moments.spread:.2g}"
    assert shown in text and shown in page
    assert "AUC; always the same answer has 0.5" in text and "<h2>AUC" in page
    assert 0.5 < min(moments.further["AUC"]) <= 1.0
    assert "Shops &lt;&amp;&gt; banks" in page and "Shops <&> banks" not in page
    assert "without any privacy" in text and "trusted place" in text


def test_regression_is_scored_by_its_squared_error_in_units_of_the_label() -> None:
    found = compare(
        tables(label=NUMBER), task="regression", epsilons=(5.0,), methods=("non-private", "central"), seeds=1
    )
    exact, central = found.rows
    assert found.metric == "mean squared error" and not found.larger_is_better
    assert there(exact.mean) < 1e-12 < there(central.mean), "the label is a line"
    assert found.constant == pytest.approx(1 / 3, abs=0.1), "uniform on [−1, 1]"


def test_components_are_scored_by_the_variance_they_capture() -> None:
    found = compare(
        tables(), task="pca", epsilons=(5.0,), methods=("non-private", "moments"), seeds=1, components=1
    )
    exact, noisy = found.rows
    assert 0.9 < there(exact.mean) <= 1.0 + 1e-12 and 0.0 <= there(noisy.mean) <= 1.0 + 1e-12
    assert found.constant is None


def test_a_method_that_fails_is_a_row_with_its_reason() -> None:
    named: dict[str, Any] = {"methods": ["frank-wolfe"], "epsilons": [1.0, 40.0], "seeds": 1, "noise_seed": 1}
    found = compare(tables(60), task="classification", **named)
    fine, failed = found.rows
    assert fine.scores and not failed.scores and "up to ε = 20" in failed.failures[0]
    assert "frank-wolfe at ε = 40: 1 of 1 gave no model" in comparison_text(comparison_facts(found, name="x"))


def test_methods_that_cannot_take_part_are_left_out_with_the_reason_or_refused_if_named() -> None:
    field = field_of(METHODS.values(), "pca")
    assert {entry.name for entry in field.contenders} >= {"moments", "central", "non-private"}
    assert "dp-sgd" not in {name for name, _ in field.left_out} | {entry.name for entry in field.contenders}
    for named, said in (
        (["dp-sgd"], "cannot take part"),
        (["moment"], "Did you mean 'moments'"),
        ([], "empty"),
    ):
        with pytest.raises(InputError, match=said):
            field_of(METHODS.values(), "pca", named=named)


def test_paper_modes_join_on_request_and_say_what_they_are() -> None:
    papers = [
        entry for entry in field_of(METHODS.values(), "classification", paper=True).contenders if entry.paper
    ]
    assert papers and all(PAPER in entry.title and entry.name.endswith("(paper)") for entry in papers)
    assert not any(entry.paper for entry in field_of(METHODS.values(), "classification").contenders)


def test_a_label_that_is_missing_or_of_the_wrong_kind_is_refused_before_anything_runs() -> None:
    bank, shop = tables(40)
    with pytest.raises(PlanError, match="no party declares one"):
        compare([shop, Table.from_arrays("club", {"spent": [1.0] * 40}, shop.schema)], task="classification")
    with pytest.raises(PlanError, match="kind real or count"):
        compare([bank, shop], task="regression")


def test_the_constant_of_a_regression_is_the_variance() -> None:
    held_out = HeldOut("regression", tables(40, label=NUMBER))
    values = held_out.labels / 5 - 1
    found = held_out.constant_figures()
    assert found["mean squared error"] == pytest.approx(float(np.var(values)))
    assert found["R²"] == pytest.approx(0.0)
    assert found["RMSE"] == pytest.approx(float(np.std(held_out.labels)))


def test_the_auc_is_that_of_scikit_learn_and_r_squared_too() -> None:
    scores, classes = np.random.default_rng(1).normal(size=(2, 60))
    people = HeldOut("classification", tables(60))
    people.__dict__["labels"] = (classes > 0).astype(np.int64)
    found = people._figures(scores[:, None])
    assert found["AUC"] == pytest.approx(roc_auc_score(classes > 0, scores))
    several = np.stack([scores, classes, -scores], axis=1)
    people.__dict__["labels"] = np.arange(60) % 3
    areas = [roc_auc_score(np.arange(60) % 3 == number, several[:, number]) for number in range(3)]
    assert people._figures(several)["AUC"] == pytest.approx(np.mean(areas))
    numbers = HeldOut("regression", tables(60, label=NUMBER))
    predicted = numbers.labels + scores
    announced = numbers._figures(predicted[:, None])
    assert announced["R²"] == pytest.approx(r2_score(numbers.labels, predicted))
    assert announced["RMSE"] == pytest.approx(np.sqrt(np.mean(scores**2)))


def test_ties_are_stated_where_splits_cannot_tell_methods_apart() -> None:
    def row(method: str, scores: list[float]) -> ComparisonRow:
        found: dict[str, Any] = {"scores": scores, "mean": float(np.mean(scores))}
        return ComparisonRow.model_construct(method=method, epsilon=1.0, paper=False, **found)

    def ties(rows: list[ComparisonRow], seeds: int = 3) -> list[str]:
        facts: dict[str, Any] = {"epsilons": [1.0], "seeds": seeds, "larger_is_better": True, "rows": rows}
        return ties_in(ComparisonRecord.model_construct(**facts))

    good, same, bad = [0.84, 0.86, 0.85], [0.85, 0.845, 0.852], [0.74, 0.76, 0.75]
    rows = [row("margin", good), row("moments", same), row("local", bad)]
    (said,) = ties(rows)
    assert said.startswith("At ε = 1 margin and moments are tied") and "local" not in said
    assert not ties(rows[::2])
    assert not ties(rows, seeds=1)
