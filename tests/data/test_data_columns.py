"""Dates, bins, missing values and spelling: public rules that turn values into numbers or levels."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

from colonnade.data.coding import Mode, code
from colonnade.data.declaring import Spelling
from colonnade.data.encoder import MODES, Encoder
from colonnade.data.forms import columns_from_data, quantile_edges
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.table import Table
from colonnade.errors import DataError, DataMissing, Misdeclared, SchemaError

spellings = st.builds(
    Spelling,
    trim=st.booleans(),
    case=st.sampled_from(["exact", "lower", "upper", "fold"]),
    unicode=st.sampled_from(["exact", "NFC", "NFD", "NFKC", "NFKD"]),
)


@given(spellings, st.text())
def test_spelling_a_second_time_changes_nothing_if_unicode_is_declared(spelling: Spelling, text: str) -> None:
    once = spelling.spell(text)
    if spelling.unicode != "exact":
        assert spelling.spell(once) == once
    if spelling.trim:
        assert once == once.strip()


@pytest.mark.parametrize(
    ("spelling", "same", "different"),
    [
        (Spelling(), ("a", " a ", "a\t"), ("A", "ａ")),
        (Spelling(trim=False), ("a",), (" a", "A")),
        (Spelling(case="lower"), ("a", "A "), ("b",)),
        (Spelling(case="fold"), ("straße", "STRASSE"), ("strase",)),
        (Spelling(unicode="NFC"), ("é", "e\u0301"), ("e", "É")),
        (Spelling(unicode="NFKC", case="fold"), ("a1", "Ａ１", "\u3000a1"), ("a2",)),
    ],
)
def test_a_rule_says_which_spellings_are_one(
    spelling: Spelling, same: tuple[str, ...], different: tuple[str, ...]
) -> None:
    assert len({spelling.spell(text) for text in same}) == 1
    assert not {spelling.spell(text) for text in different} & {spelling.spell(same[0])}


def test_ids_follow_the_declared_rule_and_its_duplicates_are_counted_and_not_shown() -> None:
    text = 'columns.age = {kind = "numeric", low = 0, high = 99}\n'
    loose = Schema.parse('id = {column = "who", case = "fold", unicode = "NFKC"}\n' + text)
    strict = Schema.parse('id = {column = "who", trim = false}\n' + text)
    plain = Schema.parse('id = "who"\n' + text)
    rows = {"who": ["Ann", "ＡＮＮ ", "bob"], "age": [1, 2, 3]}
    assert list(Table.from_arrays("bank", rows, plain).ids()) == ["Ann", "ＡＮＮ", "bob"]
    assert list(Table.from_arrays("bank", rows, strict).ids()) == ["Ann", "ＡＮＮ ", "bob"]
    with pytest.raises(DataError, match="1 id is repeated") as raised:
        Table.from_arrays("bank", rows, loose)
    assert "Ann" not in str(raised.value)
    with pytest.raises(DataError, match="1 id is missing"):
        Table.from_arrays("bank", {"who": ["a", "  ", "b"], "age": [1, 2, 3]}, strict)


def test_peers_see_the_rule_for_ids_and_not_the_name_of_their_column() -> None:
    schema = Schema.parse('id = {column = "who", case = "lower"}\ncolumns.a = {kind = "bins", edges = [1]}')
    described = json.loads(json.dumps(schema.public("bank").to_data(), sort_keys=True))
    assert "who" not in json.dumps(described)
    assert PublicSchema.from_data(described).id_spelling == Spelling(case="lower") == schema.id_spelling
    assert Schema.from_data(json.loads(json.dumps(schema.to_data()))) == schema


DATES = DateColumn("opened", low=date(2000, 1, 1), high=date(2020, 1, 1), missing=date(2010, 1, 1))


def days(values: object, column: DateColumn = DATES) -> list[float]:
    coded = code(values, column)
    assert not coded.problems
    return list(coded.values)


def test_a_date_is_the_same_day_however_it_is_given() -> None:
    day, noon = date(2004, 2, 29), datetime(2004, 2, 29, 12)
    (expected,) = days([day])
    # From the program date: `date -ud 2004-02-29 +%s`, divided by the seconds of a day.
    assert expected == 12477.0
    for text in ("2004-02-29", " 2004-02-29 ", "20040229", "2004-02-29T00:00:00", "2004-02-29 01:00+01:00"):
        assert days([text]) == [expected]
    assert (
        days([noon])
        == days(["20040229T12"])
        == days(["2004-02-29T12:00Z"])
        == days([noon.replace(tzinfo=UTC)])
        == [expected + 0.5]
    )
    assert days([noon.replace(tzinfo=timezone(timedelta(hours=12)))]) == [expected]
    for unit in ("D", "s", "us", "ns"):
        assert days(np.array(["2004-02-29"], dtype=f"datetime64[{unit}]")) == [expected]
    german = DateColumn("opened", low=DATES.low, high=DATES.high, format="%d.%m.%Y")
    assert days(["29.02.2004"], german) == [expected]


def test_dates_outside_are_clipped_missing_ones_filled_and_other_things_counted() -> None:
    coded = code(untyped(["1999-12-31", "2030-01-01T10:00", None, ""]), DATES)
    assert coded.clipped == 2 and not coded.problems
    assert coded.values.tolist() == [*DATES.range, DATES.fill, DATES.fill]
    assert code(["2004-02-30", "soon", "2004-01-01"], DATES).problems.undated == 2
    assert code([1, 2], DATES).problems.undated == 2
    assert code(untyped([None]), DateColumn("d", low=DATES.low, high=DATES.high)).problems.missing == 1
    assert "format" in code(["x"], DATES).problems.advice


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=6, unique=True).map(
        lambda edges: tuple(sorted(edges))
    ),
    st.lists(st.floats(-1e9, 1e9) | st.none(), min_size=1),
)
def test_a_bin_begins_at_its_edge_and_every_number_has_one(
    edges: tuple[float, ...], values: list[float | None]
) -> None:
    column = BinnedColumn("x", edges=edges, missing="category")
    coded = code(np.array([np.nan if v is None else v for v in values]), column)
    assert not coded.problems and len(column.levels) == len(set(column.levels)) == len(edges) + 2
    for value, level in zip(values, coded.values.tolist(), strict=True):
        if value is None:
            assert column.levels[level] == "missing"
        else:
            assert level == sum(edge <= value for edge in edges)


def test_missing_values_count_as_what_is_declared_and_are_refused_otherwise() -> None:
    def coded(declared: object, values: list[object]) -> list[object]:
        result = code(values, declared)  # type: ignore[arg-type]
        assert not result.problems
        return list(result.values.tolist())

    assert coded(NumericColumn("x", 0, 9, missing=3), [1.0, None, float("nan"), 12]) == [1, 3, 3, 9]
    assert coded(BinnedColumn("x", (0, 5), missing=7), [1, None]) == [1, 2]
    assert coded(BinaryColumn("x", ("F", "M"), missing="M"), ["F", None, " "]) == [0, 1, 1]
    filled = CategoricalColumn("x", ("a", "b", "rest"), other="rest", missing="b")
    assert coded(filled, ["a", None, "", "z"]) == [0, 1, 1, 2]
    for refusing in (NumericColumn("x", 0, 9), BinnedColumn("x", (0,)), CategoricalColumn("x", ("1", "2"))):
        assert code(untyped([1, None]), refusing).problems.missing == 1
        assert "missing = {value" in code(untyped([1, None]), refusing).problems.advice


NUMBER = 'kind = "numeric"\nlow = 0\nhigh = 9\n'
DATED = 'kind = "date"\nlow = 2000-01-01\nhigh = 2009-01-01\n'
LEVELS = 'kind = "categorical"\n'


def parse(declaration: str) -> object:
    (column,) = Schema.parse(f'id = "who"\n[columns.x]\n{declaration}', name="bank.toml").columns
    return column


def test_a_category_of_its_own_is_one_more_category() -> None:
    binary = parse('kind = "binary"\nvalues = ["F", "M"]\nmissing = "category"')
    assert binary == CategoricalColumn("x", ("F", "M", "missing"), missing="missing")
    loud = parse('kind = "categorical"\ncategories = ["a", "b"]\ncase = "upper"\nmissing = "category"')
    assert isinstance(loud, CategoricalColumn) and loud.levels == ("A", "B", "MISSING")
    dated = parse('kind = "date"\nlow = 2000-01-01\nhigh = 2009-01-01\nmissing = "category"')
    assert dated == DateColumn("x", low=date(2000, 1, 1), high=date(2009, 1, 1), missing="category")
    assert parse('kind = "numeric"\nlow = 0\nhigh = 1\nmissing = "refuse"') == NumericColumn("x", 0, 1)


@pytest.mark.parametrize(
    ("declaration", "parts"),
    [
        (NUMBER + "missing = {value = 10}", ["line 6", "x.missing", "0 to 9"]),
        (NUMBER + 'missing = {value = "3"}', ["x.missing", "not a number"]),
        (DATED + 'missing = "mean"', ["line 6", "x.missing", "'mean'", "category"]),
        (NUMBER + 'missing = "mean"', ["line 6", "'mean'", "refuse", "category"]),
        (NUMBER + "missing = 3", ["x.missing", "{value = …}"]),
        ('kind = "binary"\nvalues = ["F", "M"]\nmissing = {value = "f"}', ["x.missing", "'f'"]),
        (LEVELS + 'categories = ["a", "missing"]\nmissing = "category"', ["declares 'missing' already"]),
        (LEVELS + 'categories = ["a", "A"]\ncase = "lower"', ["x.categories", "'a' more than once"]),
        (LEVELS + 'categories = ["a", "b"]\ncase = "loud"', ["x.case", "'loud'", "lower"]),
        (LEVELS + 'categories = ["a", "b"]\nunicode = "NFCC"', ["Did you mean 'NFC'"]),
        ('kind = "date"\nlow = 2001-01-01\nhigh = 2000-01-01', ["line 4", "x.low", "not before"]),
        ('kind = "date"\nlow = 2000\nhigh = 2001-01-01', ["line 4", "x.low", "2000", "date"]),
        (DATED + "missing = {value = 1999-01-01}", ["x.missing"]),
        (DATED + "missing = {value = 3}", ["x.missing", "3"]),
        (DATED + 'format = "DMY"', ["x.format", "%d.%m.%Y"]),
        ('kind = "bins"\nedges = []', ["x.edges", "left blank"]),
        ('kind = "bins"\nedges = [3, 2]', ["line 4", "x.edges", "rise"]),
        ('kind = "bins"\nedges = [3, inf]', ["x.edges", "finite"]),
        ('kind = "bins"\nedges = [3]\nmissing = {value = "a"}', ["x.missing", "'a'"]),
    ],
)
def test_a_declaration_that_contradicts_itself_is_pointed_at(declaration: str, parts: list[str]) -> None:
    with pytest.raises(SchemaError) as raised:
        parse(declaration)
    for part in ["bank.toml", *parts]:
        assert part in str(raised.value), str(raised.value)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('id = {column = "who", case = "lowr"}', "line 1, id.case: .* Did you mean 'lower'"),
        ('id = {colum = "who"}', "line 1, id"),
        ("id = 3", "line 1, id.*3.*string"),
    ],
)
def test_rules_for_ids_are_checked_like_everything_else(declared: str, said: str) -> None:
    with pytest.raises(SchemaError, match=f"bank.toml, {said}"):
        Schema.parse(declared + '\ncolumns.a = {kind = "bins", edges = [1]}', name="bank.toml")


COLUMNS = (
    DateColumn(
        "a", low=datetime(2000, 1, 1, 12), high=date(2001, 1, 1), format="%d.%m.%Y", missing=date(2000, 6, 1)
    ),
    DateColumn("b", low=date(2000, 1, 1), high=datetime(2001, 1, 1, 3, 4, 5, 6)),
    DateColumn("h", low=date(2000, 1, 1), high=date(2001, 1, 1), missing="category"),
    BinnedColumn("c", (0.1, 0.2, 1e300), missing="category"),
    BinnedColumn("d", (1,), missing=0.5),
    NumericColumn("e", 0, 1, missing=0.5),
    BinaryColumn("f", ("x", "y"), missing="y", spelling=Spelling(trim=False, case="fold")),
    CategoricalColumn("g", ("x", "y"), other="x", missing="y", spelling=Spelling(unicode="NFKC")),
)


def test_every_declaration_survives_its_plain_form() -> None:
    described = json.loads(json.dumps([column.to_data() for column in COLUMNS], sort_keys=True))
    assert columns_from_data(described) == COLUMNS
    for mode in MODES:
        encoder = Encoder(COLUMNS, mode)
        assert Encoder.from_data(json.loads(json.dumps(encoder.to_data(), sort_keys=True))) == encoder


@pytest.mark.parametrize("mode", MODES)
def test_missing_dates_and_durations_have_a_feature_of_their_own(mode: Mode) -> None:
    columns = (
        DateColumn("left", low=date(2000, 1, 1), high=date(2020, 1, 1), missing="category"),
        NumericColumn("stay", 0, 86400, missing="category"),
    )
    raw = {
        "left": np.array(["2005-03-04", "NaT", "1999-01-01"], dtype="datetime64[s]"),
        "stay": np.array([3600, "NaT", 90000], dtype="timedelta64[s]"),
    }
    encoder = Encoder(columns, mode)
    features = encoder.encode(raw)
    for name, span in encoder.spans.items():
        assert encoder.feature_names[span][-1] == f"{name}:missing"
        assert (np.linalg.norm(features[:, span], axis=1) <= 1 + 1e-12).all()
        np.testing.assert_array_equal(
            features[1, span], np.eye(1, span.stop - span.start, k=span.stop - span.start - 1)[0]
        )
    coded = encoder.block(raw).columns
    days = np.array(["2005-03-04", "NaT", "2000-01-01"], "M8[D]")
    np.testing.assert_array_equal(coded["left"], np.where(np.isnat(days), np.nan, days.astype(float)))
    np.testing.assert_array_equal(coded["stay"], [3600, np.nan, 86400])
    with pytest.raises(DataError, match="missing"):
        Encoder((replace(columns[0], missing=None),), mode).encode(raw)


# Edges of bins: by list, by number, by quantiles of a public set, and what is refused.


def declared(text: str) -> Column:
    return Schema.parse(f'id = "n"\n[columns.age]\nkind = "bins"\n{text}').columns[0]


def test_a_number_of_bins_makes_edges_of_one_width_and_older_bins_have_the_same_description() -> None:
    assert declared("bins = 4\nlow = 20\nhigh = 100") == BinnedColumn("age", (40, 60, 80), low=20, high=100)
    found = declared('bins = 3\nlow = 0\nhigh = 999\ntransform = "log1p"\nordered = true')
    assert isinstance(found, BinnedColumn) and found.ordered
    assert found.edges == pytest.approx((9, 99))
    plain = BinnedColumn("age", (18, 65), missing="category")
    assert plain.to_data() == {"name": "age", "kind": "bins", "edges": [18.0, 65.0], "missing": "category"}


def test_quantiles_of_a_public_file_become_edges_that_the_schema_holds(tmp_path: Path) -> None:
    (tmp_path / "census.csv").write_text("YEARS\n" + "\n".join(str(age) for age in range(100)))
    path = tmp_path / "bank.toml"
    path.write_text(
        'id = "n"\n[columns.age]\nkind = "bins"\nbins = 4\nordered = true\n'
        'quantiles = {file = "census.csv", column = "YEARS"}\n'
    )
    schema = Schema.load(path)
    assert schema.columns == (BinnedColumn("age", (24, 49, 74), ordered=True),)
    assert quantile_edges("age", 4, [1] * 9 + [2, 3]) == (2.0,), "the first number above that fills all"
    (tmp_path / "census.csv").unlink()
    assert Schema.from_data(schema.to_data()) == schema
    with pytest.raises(DataMissing, match=r"public set.*census\.csv does not exist"):
        Schema.load(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "declares neither of edges, a list, and bins"),
        ("edges = [1]\nbins = 4", "declares both of edges"),
        ("bins = 1\nlow = 0\nhigh = 9", "not a whole number from 2 to 256"),
        ("bins = 1000\nlow = 0\nhigh = 9", "not a whole number from 2 to 256"),
        ("bins = 4\nlow = 0", "high is not declared"),
        ("bins = 4\nlow = 3\nhigh = 3", "low and high are both 3"),
        ('bins = 4\nlow = -1\nhigh = 3\ntransform = "log1p"', "log1p needs low above -1"),
        ("edges = [1, 2]\nlow = 5", "low = 5 is not below its first edge"),
        ("edges = [1, 2]\nhigh = 1", "high = 1 is not at or above its last edge"),
        ("bins = 40\nlow = 0\nhigh = 9\nwhole = true", "no whole number lies from"),
        ('bins = 4\nquantiles = "census.csv"', "List them as edges here"),
    ],
)
def test_what_makes_no_bins_is_told_with_its_line(text: str, says: str) -> None:
    with pytest.raises(SchemaError, match=says) as announced:
        declared(text)
    assert "columns.age" in str(announced.value)


@pytest.mark.parametrize(
    ("quantiles", "says"),
    [
        ('"census.csv"', "has no column 'age'"),
        ("7", "quantiles names a public file"),
        ('{file = "census.csv", column = "WORDS"}', "WORDS"),
        ('{file = "census.csv", column = "SAME"}', "one number only"),
    ],
)
def test_a_public_set_that_makes_no_edges_is_refused(tmp_path: Path, quantiles: str, says: str) -> None:
    (tmp_path / "census.csv").write_text("YEARS,WORDS,SAME\n1,one,5\n2,two,5\n")
    path = tmp_path / "bank.toml"
    path.write_text(f'id = "n"\n[columns.age]\nkind = "bins"\nbins = 4\nquantiles = {quantiles}\n')
    with pytest.raises(Misdeclared, match=says):
        Schema.load(path)
