"""One release, a model for each of its labels: what a view is, what it is fitted to, and how it is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learn_releases import Shoppers

from colonnade import PCA, LinearRegression, LogisticRegression, MomentRelease, Schema, Table
from colonnade.data.labels import LabelBlock
from colonnade.errors import LabelMismatch, Misdeclared, SchemaError, UnknownKey
from colonnade.federation.federation import Federation
from colonnade.models.available import available_models, rank_columns
from colonnade.models.uncertainty import noise_uncertainty

KINDS = ("two", "real", "three")
PEOPLE = Shoppers(3000)


def federation(budget: tuple[float, float] = (100.0, 1e-3)) -> Federation:
    """Bank and shop, where the bank has a label of each kind."""
    labels = [PEOPLE.label_of(kind) for kind in KINDS]
    declared = [label for label, _ in labels if label is not None]
    tables = []
    for party, columns in PEOPLE.columns.items():
        arrays = {column.name: PEOPLE.raw[column.name] for column in columns}
        schema = Schema("person", columns)
        if party == "bank":
            arrays |= {label.column: values for label, values in labels if label is not None}
            schema = Schema("person", columns, declared[0], more_labels=tuple(declared[1:]))
        tables.append(Table.of(party, arrays, schema))
    return Federation(tables, budget=budget, noise_seed=3)


@pytest.fixture(scope="module")
def release() -> MomentRelease:
    return federation().moments(task="classification", epsilon=5.0)


def test_models_of_all_labels_come_of_one_release(release: MomentRelease) -> None:
    assert repr(release).startswith("MomentRelease(10 features of 2 parties, labels buys, spent, grade, 3000")
    first, spent = LogisticRegression().fit(release), LinearRegression(label="spent").fit(release)
    grade = LogisticRegression(label="grade").fit(release)
    assert first.score(PEOPLE.raw, np.array(("no", "yes"))[PEOPLE.buys]) > 0.65
    assert grade.score(PEOPLE.raw, np.array(("low", "middle", "high"))[PEOPLE.grade]) > 0.6
    assert spent.score(PEOPLE.raw, PEOPLE.spent) > 0.5
    assert [model.frame_.label.label.column for model in (first, spent, grade)] == ["buys", "spent", "grade"]
    assert grade.releases_ == (release,) and str(grade.privacy_) == str(release.privacy)


def test_a_view_is_a_release_of_one_label_and_of_one_label_itself(release: MomentRelease) -> None:
    view = release.for_label("grade")
    assert view.label_names == ("grade",) and view.for_label() is view and view.for_label("grade") is view
    alone = PEOPLE.release("three")
    assert alone.for_label() is alone and alone.for_label("grade") is alone
    assert (view.rows, view.run, view.guarantees) == (release.rows, release.run, release.guarantees)
    with pytest.raises(LabelMismatch, match=r"there is no label 'grades'.*Did you mean 'grade'"):
        release.for_label("grades")
    with pytest.raises(LabelMismatch, match="None is declared"):
        PEOPLE.release("none").for_label("grade")


@pytest.mark.parametrize("name", ["buys", "grade", "spent"])
def test_whatever_reads_a_view_sees_the_larger_noise_of_its_label(release: MomentRelease, name: str) -> None:
    view = release.for_label(name)
    alone = replace(view, label=LabelBlock(view.label.label))
    assert view.noise == release.noise
    assert view.border == pytest.approx(alone.border / 3**0.5, rel=1e-3)
    moments = view.value_moments() if name == "spent" else view.class_moments()
    other = alone.value_moments() if name == "spent" else alone.class_moments()
    assert moments.sum_noise == pytest.approx(3**0.5 * other.sum_noise, rel=1e-3)
    if name != "spent":
        counts = view.class_moments().count_noise
        assert counts == pytest.approx(3 * alone.class_moments().count_noise, rel=1e-3)
        assert view.select(["sex"]).margins().count_noise == counts


def test_the_noise_that_is_said_of_a_labels_sums_is_the_noise_that_they_have() -> None:
    """Over many releases with fresh noise, class counts and sums spread as the view says."""
    few = federation()
    parties = Federation([table.take(np.arange(60)) for table in few.tables.values()], budget=(100.0, 1e-3))
    drawn = []
    for seed in range(12):
        parties._noise_seed = seed
        drawn.append(parties.moments(task="classification", epsilon=2.0, verify="none").for_label("grade"))
    counts = np.array([view.class_moments().counts for view in drawn])
    sums = np.array([view.class_moments().sums for view in drawn])
    said = drawn[0].class_moments()
    assert counts.std(axis=0, ddof=1).mean() == pytest.approx(said.count_noise, rel=0.5)
    assert sums.std(axis=0, ddof=1).mean() == pytest.approx(said.sum_noise, rel=0.25)


def test_what_is_read_of_a_release_is_read_of_its_first_label(release: MomentRelease) -> None:
    first = release.for_label()
    assert np.array_equal(release.class_moments().sums, first.class_moments().sums)
    assert rank_columns(release).best() == rank_columns(first).best()
    assert "Write label = 'spent'" in str(available_models(release))
    kept = release.select(["age", "visits"])
    assert kept.label_names == release.label_names
    means = [one.for_label("spent").value_moments().value_mean for one in (kept, release)]
    assert means[0] == pytest.approx(means[1])
    assert len(LinearRegression(label="spent").fit(kept).coef_) == 4
    table = release.for_label("grade").select(["region", "sex"]).synthesize(50, seed=1)
    assert "grade" in table.columns


def test_intervals_of_a_view_are_wider_than_of_the_label_alone(release: MomentRelease) -> None:
    view = release.for_label("spent")
    quiet = replace(view, label=LabelBlock(view.label.label, 1), matrix=_at_full_weight(view))
    wide, narrow = (noise_uncertainty(each, draws=60) for each in (view, quiet))
    assert wide is not None and narrow is not None
    assert wide.half_widths.mean() > 1.2 * narrow.half_widths.mean()


def _at_full_weight(view: MomentRelease) -> Any:
    """The matrix as it would be if the label had been alone, as far as what it says of people goes."""
    scale = np.ones(len(view.matrix))
    scale[view.columns :] = 3**0.5
    return np.rint(view.matrix * np.outer(scale, scale)).astype(np.int64)


def test_a_release_of_several_labels_is_kept_whole(release: MomentRelease, tmp_path: Path) -> None:
    for one in (release, release.for_label("spent"), PEOPLE.release("two")):
        one.save(tmp_path / "one")
        again = MomentRelease.load(tmp_path / "one")
        assert again.labels == one.labels and np.array_equal(again.matrix, one.matrix)
        assert again.border == one.border


def test_principal_components_are_those_of_any_view(release: MomentRelease) -> None:
    whole, first = PCA(n_components=2).fit(release), PCA(n_components=2).fit(release.for_label())
    assert whole.components_ == pytest.approx(first.components_)


def test_labels_of_unequal_weight_are_no_release(release: MomentRelease) -> None:
    with pytest.raises(ValueError, match="equal shares"):
        replace(release, label=LabelBlock(release.label.label))
    with pytest.raises(ValueError, match="equal shares"):
        blocks = [LabelBlock(block.label) for block in release.labels.blocks]
        replace(release, label=blocks[0], more_labels=tuple(blocks[1:]))


def test_a_model_is_asked_for_by_the_name_of_its_label_before_anything_is_paid() -> None:
    parties = federation()
    for model, said in (
        (LinearRegression(), "label 'buys' is of kind 'classes'.*Write label = 'spent'"),
        (LogisticRegression(label="spent"), "of kind 'real'.*Write label = 'buys' or 'grade'"),
        (LogisticRegression(label="grades"), "Declared are buys, spent and grade. Did you mean 'grade'"),
        (LogisticRegression(method="margin"), "margin learns one label"),
    ):
        with pytest.raises(LabelMismatch, match=said):
            model.fit(parties)
    assert not parties.runs
    spent = LinearRegression(label="spent", epsilon=5.0, delta=1e-5).fit(parties)
    assert spent.releases_[0].label_names == ("buys", "spent", "grade")
    grade = LogisticRegression(label="grade", epsilon=5.0, delta=1e-5).fit(spent.releases_[0])
    assert len(parties.runs) == 1 and grade.classes_.tolist() == ["low", "middle", "high"]
    assert LogisticRegression().fit(parties).because_ == "one release is for all labels"


def test_rows_keep_all_labels_in_any_order_and_a_table_can_be_cut_to_one(tmp_path: Path) -> None:
    bank = federation().tables["bank"]
    order = np.random.default_rng(1).permutation(bank.rows)[:50]
    (block,) = bank.take(order).blocks()
    (whole,) = bank.blocks()
    assert all(np.array_equal(a, b[order]) for a, b in zip(block.labels, whole.labels, strict=True))
    (one,) = bank.for_label("spent").blocks()
    assert len(one.labels) == 1 and np.array_equal(one.labels[0], whole.labels[1])
    (some,) = bank.for_label("spent").take(order).blocks()
    assert len(some.labels) == 1 and np.array_equal(some.labels[0], whole.labels[1][order])
    path = tmp_path / "bank.csv"
    names = ["age", "income", "buys", "spent", "grade"]
    columns = {**PEOPLE.raw, **{str(PEOPLE.label_of(k)[0].column): PEOPLE.label_of(k)[1] for k in KINDS}}  # type: ignore[union-attr]
    lines = [",".join(["person", *names])]
    lines += [",".join([str(row), *(str(columns[name][row]) for name in names)]) for row in range(20)]
    path.write_text("\n".join(lines))
    table = Table("bank", path, bank.schema)
    (read,) = table.blocks()
    assert [values.dtype.kind for values in read.labels] == ["i", "f", "i"]
    (cut,) = table.for_label("grade").check().blocks()
    assert np.array_equal(cut.labels[0], read.labels[2])
    path.write_text("\n".join([*lines[:3], "3,30,100,yes,,low"]))
    with pytest.raises(Exception, match="'spent': 1 value is missing"):
        Table("bank", path, bank.schema).check()


HEAD = 'id = "n"\ncolumns.age = {kind = "numeric", low = 0, high = 90}\n'
PAID = '[labels.paid]\nkind = "classes"\nclasses = [0, 1]\n'


def test_a_schema_declares_one_label_or_several_under_their_names() -> None:
    schema = Schema.parse(HEAD + PAID + '[labels.loss]\nkind = "count"\nlow = 0\nhigh = 9\n')
    assert [label.column for label in schema.labels] == ["paid", "loss"]
    assert Schema.from_data(schema.to_data()) == schema
    public = schema.public("bank")
    assert type(public).from_data(public.to_data()) == public
    assert schema.for_label("loss").labels == schema.labels[1:]
    # One under its name is what [label] declares.
    single = 'label = {column = "paid", kind = "classes", classes = [0, 1]}\n'
    assert Schema.parse(HEAD + PAID) == Schema.parse(HEAD + single)
    assert "labels" not in Schema.parse(HEAD + PAID).to_data()


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (PAID + 'label = {column = "x", kind = "real", low = 0, high = 1}', UnknownKey, "labels.paid.label"),
        ('label = {column = "x", kind = "real", low = 0, high = 1}\n' + PAID, Misdeclared, "Keep one"),
        (PAID + 'column = "paid"', SchemaError, "named after its column"),
        (PAID.replace("[0, 1]", "[0]"), Misdeclared, "line 5, labels.paid.classes: .* needs at least 2"),
        (PAID.replace("paid", "n"), Misdeclared, "'n' is the id column and the label"),
        (PAID.replace("paid", "age"), Misdeclared, "'age' is the label and a feature"),
        ('[labels.loss]\nkind = "real"\nlow = 3\nhigh = 3', Misdeclared, "labels.loss.low"),
    ],
)
def test_what_is_wrong_with_labels_is_told_where_it_stands(text: str, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        Schema.parse(HEAD + text)
