"""Comparisons: the same people for everybody, exact scores on public data only, and charges where data is private."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import r2_score, roc_auc_score
from typed import there

from colonnade import Federation, Schema, Table
from colonnade.errors import InputError, PlanError
from colonnade.evaluation.open_rows import HeldOut, split
from colonnade.lab.comparison import (
    Comparison,
    compare,
    compare_charged,
    comparison_facts,
    field_of,
    planned_sums,
)
from colonnade.methods.table import METHODS
from colonnade.privacy.paper import LABEL as PAPER
from colonnade.report.comparison import (
    comparison_page,
    comparison_table,
    comparison_text,
    ties_in,
)
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


def test_seeds_give_different_splits_and_the_same_seed_the_same() -> None:
    given_tables = tables(40)
    found = [tuple(split(given_tables, seed=seed, share=0.25)[1][0].ids()) for seed in (0, 1, 0)]
    assert found[0] == found[2] != found[1]


def test_people_that_one_party_lacks_are_in_neither_part() -> None:
    bank, shop = tables(40)
    training, testing = split([bank, shop.take(range(20))], seed=0, share=0.25)
    assert {*training[0].ids(), *testing[0].ids()} == {f"C{i}" for i in range(20)}


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2])
def test_a_split_with_nobody_on_one_side_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        split(tables(40), seed=0, share=share)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(
        tables(),
        task="classification",
        epsilons=(1.0, 8.0),
        methods=("moments", "non-private", "dp-sgd"),
        delta=1e-5,
        seeds=2,
        noise_seed=1,
    )


def test_every_method_is_scored_at_every_epsilon_and_seed(found: Comparison) -> None:
    assert [(row.method, row.epsilon) for row in found.rows] == [
        ("moments", 1.0),
        ("moments", 8.0),
        ("non-private", None),
        ("dp-sgd", 1.0),
        ("dp-sgd", 8.0),
    ]
    assert all(len(row.scores) == 2 and not row.failures for row in found.rows)
    assert (found.trained_on, found.held_out) == (480, 120)
    by_name = {(row.method, row.epsilon): row for row in found.rows}
    exact = by_name["non-private", None].mean
    assert exact is not None and exact > 0.97 and by_name["non-private", None].guarantees == []
    assert by_name["moments", 8.0].mean > 0.8  # type: ignore[operator]
    assert by_name["moments", 1.0].bytes and by_name["dp-sgd", 1.0].bytes is None
    assert not by_name["moments", 1.0].trusted and by_name["dp-sgd", 1.0].trusted
    for (_, epsilon), row in by_name.items():
        server = [there(item.epsilon) for item in row.guarantees if item.observer in ("server", "reader")]
        assert all(epsilon is not None and value <= epsilon for value in server), row.method


def test_what_always_says_the_same_scores_the_share_of_the_commonest_class(found: Comparison) -> None:
    assert found.constant is not None and 0.5 <= found.constant < 0.62


def test_facts_tables_and_page_say_the_same(found: Comparison) -> None:
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
    assert exact.mean is not None and exact.mean < 1e-12, "the label is a line"
    assert central.mean is not None and central.mean > 1e-12
    assert found.constant == pytest.approx(1 / 3, abs=0.1), "uniform on [−1, 1]"


def test_components_are_scored_by_the_variance_they_capture() -> None:
    found = compare(
        tables(), task="pca", epsilons=(5.0,), methods=("non-private", "moments"), seeds=1, components=1
    )
    exact, noisy = found.rows
    assert exact.mean is not None and 0.9 < exact.mean <= 1.0 + 1e-12
    assert noisy.mean is not None and 0.0 <= noisy.mean <= 1.0 + 1e-12 and found.constant is None


def test_a_method_that_fails_is_a_row_with_its_reason() -> None:
    found = compare(
        tables(60),
        task="classification",
        epsilons=(1.0, 40.0),
        methods=("frank-wolfe",),
        seeds=1,
        noise_seed=1,
    )
    fine, failed = found.rows
    assert fine.scores and not failed.scores and "up to ε = 20" in failed.failures[0]
    assert "frank-wolfe at ε = 40: 1 of 1 gave no model" in comparison_text(comparison_facts(found, name="x"))


def test_methods_that_cannot_take_part_are_left_out_with_the_reason_or_refused_if_named() -> None:
    field = field_of(METHODS.values(), "pca")
    assert {entry.name for entry in field.contenders} >= {"moments", "central", "non-private"}
    assert "dp-sgd" not in {name for name, _ in field.left_out} | {entry.name for entry in field.contenders}
    with pytest.raises(InputError, match="cannot take part"):
        field_of(METHODS.values(), "pca", named=["dp-sgd"])
    with pytest.raises(InputError, match="Did you mean 'moments'"):
        field_of(METHODS.values(), "pca", named=["moment"])
    with pytest.raises(InputError, match="empty"):
        field_of(METHODS.values(), "pca", named=[])
    private = field_of(METHODS.values(), "classification", public=False)
    assert not {entry.name for entry in private.contenders} & {"central", "dp-sgd", "non-private"}
    assert "declared public" in dict(private.left_out)["central"]


def test_paper_modes_join_on_request_and_say_what_they_are() -> None:
    papers = [
        entry for entry in field_of(METHODS.values(), "classification", paper=True).contenders if entry.paper
    ]
    assert papers and all(PAPER in entry.title and entry.name.endswith("(paper)") for entry in papers)
    assert not any(entry.paper for entry in field_of(METHODS.values(), "classification").contenders)
    on_private = field_of(METHODS.values(), "classification", paper=True, public=False)
    assert not any(entry.paper for entry in on_private.contenders)


def test_on_private_data_nothing_is_shown_that_depends_on_rows_or_on_people_of_one_party() -> None:
    field = field_of(METHODS.values(), "classification", named=["moments"], public=False)
    shown = []
    for more in (0, 40):
        bank, shop = tables(200)
        spent = np.arange(200.0 + more) % 10
        names = np.array([f"C{i}" for i in range(200)] + [f"S{i}" for i in range(more)])
        shop = Table.from_arrays("shop", {"spent": spent}, shop.schema, ids=names)
        federation = Federation([bank, shop], budget=(9.0, 1e-5))
        found = compare_charged(federation, task="classification", field=field, epsilons=(1.0,), delta=1e-5)
        assert all(row.seconds is None for row in found.rows)
        shown.append(json.dumps(comparison_facts(found, name="n").to_data()))
        assert "not shown" in comparison_text(ComparisonRecord.model_validate_json(shown[-1]))
    assert shown[0] == shown[1]


def test_on_private_data_everything_is_charged_and_nothing_scored() -> None:
    federation = Federation(tables(), budget=(2.0, 1e-5))
    field = field_of(METHODS.values(), "classification", named=["moments"], public=False)
    epsilons = (0.5, 1.0)
    sums, unknown = planned_sums(
        federation.group, federation.tables, task="classification", field=field, epsilons=epsilons, delta=1e-5
    )
    found = compare_charged(federation, task="classification", field=field, epsilons=epsilons, delta=1e-5)
    assert [row.scores for row in found.rows] == [[], []] and found.held_out == 0
    charges = [entry for entry in federation.ledgers["bank"].entries() if entry.kind == "charge"]
    assert len(charges) == 2
    assert unknown == () and sums["server"] == pytest.approx(1.5, rel=1e-3) and sums["party:bank"] > 1.5
    spent = {
        total.observer: total.epsilon
        for total in federation.ledgers["bank"].totals()
        if total.unit == "record"
    }
    assert 1.0 < spent["server"] <= sums["server"]


def test_a_budget_that_runs_out_stops_the_charging_and_says_so_to_whoever_may_know() -> None:
    federation = Federation(tables(), budget=(1.0, 1e-5))
    field = field_of(METHODS.values(), "classification", named=["moments"], public=False)
    announced: list[str] = []
    found = compare_charged(
        federation,
        task="classification",
        field=field,
        epsilons=(0.4, 3.0),
        delta=1e-5,
        tell=lambda name, error: announced.append(f"{name}: {error}"),
    )
    assert not found.rows[0].failures
    (reason,) = found.rows[1].failures
    assert "its own operator can see why" in reason and "bank" not in reason, (
        "what a party has left is its own"
    )
    assert len(announced) == 1 and announced[0].startswith("moments at ε = 3: ") and "bank" in announced[0]
    assert sum(entry.kind == "charge" for entry in federation.ledgers["bank"].entries()) == 1


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
    assert found["R²"] == pytest.approx(0.0) and found["RMSE"] == pytest.approx(
        float(np.std(held_out.labels))
    )


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
        mean = float(np.mean(scores))
        return ComparisonRow.model_construct(
            method=method, epsilon=1.0, scores=scores, mean=mean, paper=False
        )

    def ties(rows: list[ComparisonRow], seeds: int = 3) -> list[str]:
        facts: dict[str, Any] = {"epsilons": [1.0], "seeds": seeds, "larger_is_better": True, "rows": rows}
        return ties_in(ComparisonRecord.model_construct(**facts))

    good, same, bad = [0.84, 0.86, 0.85], [0.85, 0.845, 0.852], [0.74, 0.76, 0.75]
    rows = [row("margin", good), row("moments", same), row("local", bad)]
    (said,) = ties(rows)
    assert said.startswith("At ε = 1 margin and moments are tied") and "local" not in said
    assert not ties(rows[::2])
    assert not ties(rows, seeds=1)
