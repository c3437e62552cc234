"""Public maps: norms for any values, the same features everywhere, and what each kind promises."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typed import untyped

from colonnade.data.block import Block
from colonnade.data.coding import Mode
from colonnade.data.declaring import expand_name, fold_names
from colonnade.data.drafting import draft
from colonnade.data.encoder import MODES, Encoder, Quantizer
from colonnade.data.kinds import Column, DateColumn, NumericColumn
from colonnade.data.levels import BinaryColumn, CategoricalColumn
from colonnade.data.maps import (
    Ball,
    FeatureMap,
    GradientHistogram,
    MapRule,
    RandomFourier,
    RandomRelu,
    public_normals,
)
from colonnade.data.own_maps import OwnMap
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.sources import FileSource
from colonnade.data.table import Table, check_schema
from colonnade.errors import DataError, Misdeclared, SchemaError

PIXELS = tuple(NumericColumn(f"p{place}", 0, 255) for place in range(20))
BALL = tuple(NumericColumn(f"e{place}", -3, 3) for place in range(4))
AGE, SEX = NumericColumn("age", 17, 90), BinaryColumn("sex", ("F", "M"))
JOB = CategoricalColumn("job", tuple("abcde"))
TABLE: tuple[Column, ...] = (AGE, SEX, JOB)
RULES: dict[str, tuple[MapRule, tuple[Column, ...]]] = {
    "relu": (RandomRelu(features=24, seed=7), TABLE),
    "fourier": (RandomFourier(features=24, seed=7, scale=0.5), TABLE),
    "low relu": (RandomRelu(features=24, seed=7, origin="low"), TABLE),
    "low fourier": (RandomFourier(features=24, seed=7, origin="low"), PIXELS),
    "gradients": (GradientHistogram(rows=4, cols=5, cells=2, orientations=6), PIXELS),
    "ball": (Ball(bound=3.0), BALL),
}
every = pytest.mark.parametrize("name", RULES)
anything = st.floats(allow_nan=False, allow_infinity=False)


def encoder_of(name: str, mode: Mode = "circle", **options: object) -> Encoder:
    rule, columns = RULES[name]
    return Encoder(columns, mode, FeatureMap(rule, **options))  # type: ignore[arg-type]


def block_of(columns: tuple[Column, ...], numbers: np.ndarray) -> Block:
    """Numbers for numeric columns, level numbers made of them for the others."""
    return Block(
        {
            column.name: values
            if isinstance(column, NumericColumn)
            else np.abs(np.nan_to_num(values, posinf=0)).astype(np.int64).astype(np.int32)
            % len(untyped(column).levels)
            for column, values in zip(columns, numbers, strict=True)
        },
        None,
        numbers.shape[1],
    )


def within(columns: tuple[Column, ...], rows: int, seed: int = 0) -> Block:
    rng = np.random.default_rng(seed)
    ends = [(one.low, one.high) if isinstance(one, NumericColumn) else (0, 60) for one in columns]
    return block_of(columns, np.array([rng.uniform(low, high, rows) for low, high in ends]))


@every
@settings(max_examples=40)
@given(data=st.data(), mode=st.sampled_from(MODES))
def test_a_mapped_row_is_never_longer_than_its_attributes_allow(
    name: str, data: st.DataObject, mode: Mode
) -> None:
    encoder = encoder_of(name, mode)
    numbers = data.draw(hnp.arrays(np.float64, (len(encoder.columns), 3), elements=anything))
    with np.errstate(all="ignore"):
        features = encoder.encode(block_of(encoder.columns, numbers))
    norms = np.linalg.norm(features[np.isfinite(features).all(axis=1)], axis=1)
    assert norms.max(initial=0.0) <= math.sqrt(encoder.attributes) * (1 + 1e-12)


@every
@settings(max_examples=40)
@given(data=st.data(), weight=st.none() | st.integers(1, 9), cap=st.none() | st.fractions("1/1000", 1))
def test_what_is_quantized_of_a_map_keeps_the_integer_bound(
    name: str, data: st.DataObject, weight: int | None, cap: Fraction | None
) -> None:
    encoder = encoder_of(name, weight=weight)
    quantizer = Quantizer(encoder, attributes_total=20, gamma=4096, cap_squared=cap)
    numbers = data.draw(
        hnp.arrays(np.float64, (len(encoder.columns), 3), elements=st.floats(-1e6, 1e6, allow_nan=False))
    )
    integers = quantizer.quantize(block_of(encoder.columns, numbers))
    assert max(sum(int(value) ** 2 for value in row) for row in integers) <= quantizer.norm_squared_bound


@every
def test_rows_that_use_their_norm_are_nearly_as_long_as_allowed(name: str) -> None:
    # A control for the two laws above: maps do not keep their bound by returning nothing.
    encoder = encoder_of(name)
    features = encoder.encode(within(encoder.columns, 200))
    assert np.median(np.linalg.norm(features, axis=1)) > 0.7 * math.sqrt(encoder.attributes)


@every
@pytest.mark.parametrize("mode", MODES)
def test_features_of_a_person_do_not_depend_on_who_is_encoded_beside_them(name: str, mode: Mode) -> None:
    encoder = encoder_of(name, mode)
    block = within(encoder.columns, 5000)
    whole = encoder.encode(block)
    for part in (slice(0, 1), slice(17, 400), slice(4090, 5000)):
        some = Block(
            {key: values[part] for key, values in block.columns.items()}, None, part.stop - part.start
        )
        np.testing.assert_allclose(encoder.encode(some), whole[part], atol=1e-12)


def test_random_weights_are_those_that_their_key_has_always_had_with_mean_0_and_variance_1() -> None:
    # Written down once: a release that was saved must be read with the same weights for ever.
    weights = public_normals(64, 16, key="relu 7")
    assert hashlib.sha256(weights.tobytes()).hexdigest()[:16] == WEIGHTS_DIGEST
    assert not np.array_equal(weights, public_normals(64, 16, key="relu 8"))
    # 2^18 draws: a mean within 6.1 of its standard deviations fails by chance about once in 1e9.
    weights = public_normals(512, 512, key="moments")
    assert abs(weights.mean()) < 6.1 / 512
    assert abs((weights**2).mean() - 1) < 6.1 * math.sqrt(2) / 512
    assert np.abs(weights).max() <= 8


WEIGHTS_DIGEST = "7e06b8a2675ee214"


def test_fourier_and_rectified_features_have_the_inner_products_of_their_kernels() -> None:
    # 16,384 features: the error of an inner product has a standard deviation below 0.012.
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(5, 6))
    inputs /= np.linalg.norm(inputs, axis=0)
    features = RandomFourier(features=1 << 14, seed=1, scale=0.8).apply(inputs, 1)
    apart = ((inputs[:, :, None] - inputs[:, None, :]) ** 2).sum(axis=0)
    np.testing.assert_allclose(features.T @ features, np.exp(-apart / (2 * 0.8**2)), atol=0.07)
    features = RandomRelu(features=1 << 14, seed=1).apply(inputs, 1)
    angle = np.arccos(np.clip(inputs.T @ inputs, -1, 1))
    # E[max(0, w·x) max(0, w·y)] for normal w (Cho and Saul 2009), less the squared mean 1/(2π).
    kernel = (np.sin(angle) + (math.pi - angle) * np.cos(angle)) / (2 * math.pi) - 1 / (2 * math.pi)
    np.testing.assert_allclose(features.T @ features, kernel * 2 * math.pi / (math.pi - 1), atol=0.07)


def slow_histogram(image: np.ndarray, cells: int, orientations: int) -> np.ndarray:
    """The histogram pixel by pixel, as its description says."""
    rows, cols = image.shape
    histogram = np.zeros((cells, cells, orientations))
    for row in range(rows):
        for col in range(cols):
            horizontal = image[row, min(col + 1, cols - 1)] - image[row, max(col - 1, 0)]
            down = image[min(row + 1, rows - 1), col] - image[max(row - 1, 0), col]
            length, turn = (
                math.hypot(horizontal, down),
                math.atan2(down, horizontal) / (2 * math.pi) * orientations,
            )
            for cell_row in range(cells):
                for cell_col in range(cells):
                    tall = max(0.0, 1 - abs((row + 0.5) * cells / rows - 0.5 - cell_row))
                    wide = max(0.0, 1 - abs((col + 0.5) * cells / cols - 0.5 - cell_col))
                    for place in range(orientations):
                        apart = (turn - place) % orientations
                        share = max(0.0, 1 - min(apart, orientations - apart))
                        histogram[cell_row, cell_col, place] += length * share * tall * wide
    flat = np.sqrt(histogram.ravel())
    flat -= flat.mean()
    result: np.ndarray = flat / np.linalg.norm(flat)
    return result


def test_histograms_of_gradients_are_as_described_without_brightness_and_contrast() -> None:
    rng = np.random.default_rng(3)
    images = rng.uniform(-1, 1, (4, 5, 3))
    features = GradientHistogram(rows=4, cols=5, cells=2, orientations=6).apply(images.reshape(20, 3), 20)
    for person in range(3):
        np.testing.assert_allclose(
            features[:, person], slow_histogram(images[:, :, person], 2, 6), atol=1e-12
        )
    image = np.random.default_rng(3).uniform(-0.2, 0.2, (20, 1))
    rule = GradientHistogram(rows=4, cols=5, cells=2)
    np.testing.assert_allclose(rule.apply(image, 20), rule.apply(3 * image + 0.3, 20), atol=1e-9)
    assert not rule.apply(np.full((20, 1), 0.4), 20).any()


@pytest.mark.parametrize("mode", MODES)
def test_columns_beside_a_map_are_encoded_as_without_it_and_its_weight_is_its_share(mode: Mode) -> None:
    mapped = Encoder(
        (AGE, *BALL, SEX), mode, beside := FeatureMap(Ball(3.0), tuple(column.name for column in BALL))
    )
    plain = Encoder((AGE, SEX), mode)
    block = within((AGE, SEX, *BALL), 50)
    assert mapped.attributes == 6
    assert mapped.feature_names[: plain.width] == plain.feature_names
    np.testing.assert_array_equal(mapped.encode(block)[:, : plain.width], plain.encode(block))

    light, heavy = (replace(mapped, map=replace(beside, weight=weight)) for weight in (1, 4))
    own = slice(plain.width, None)
    np.testing.assert_allclose(2 * light.encode(block)[:, own], heavy.encode(block)[:, own])
    assert (light.attributes, heavy.attributes) == (3, 6)


@every
def test_an_encoder_with_a_map_is_its_description(name: str) -> None:
    encoder = encoder_of(name, weight=3)
    assert Encoder.from_data(json.loads(json.dumps(encoder.to_data()))) == encoder


SCHEMA = """
id = "person"
columns."pixel{0..195}" = {kind = "numeric", low = 0, high = 255}

[map]
"""
IMAGE = 'kind = "gradient-histogram"\ncols = 14\n'
RELU = 'kind = "random-relu"\nfeatures = 4\nseed = 1\n'


def test_a_schema_of_two_hundred_pixels_is_six_lines_and_constant_columns_are_refused() -> None:
    schema = Schema.parse(SCHEMA + 'kind = "gradient-histogram"\nrows = 14\ncols = 14')
    assert len(schema.columns) == 196
    assert schema.encoder("circle").width == 128
    assert Schema.from_data(schema.to_data()) == schema
    public = schema.public("eye")
    assert PublicSchema.from_data(json.loads(json.dumps(public.to_data()))) == public
    with pytest.raises(
        SchemaError, match=r"line 2, columns.a.low: .* one value only and says nothing. Leave it out"
    ):
        Schema.parse('id = "n"\ncolumns.a = {kind = "numeric", low = 3, high = 3}')


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (IMAGE + "rows = 13", r"line 8, map.rows: .*182 pixels, but 196 columns"),
        (IMAGE + "rows = 14\ncells = 15", "map: cells = 15 is not .* 1 to 14"),
        (IMAGE + "rows = 14\norientations = 1", "orientations = 1"),
        ('kind = "random-rely"\nfeatures = 3\nseed = 1', "Did you mean 'random-relu'"),
        ('kind = "random-relu"\nfeatures = 3\nseed = 1\nscale = 2', "unknown key 'scale'"),
        ('kind = "random-relu"\nfeatures = 0\nseed = 1', "features = 0 is not a whole number"),
        ('kind = "random-relu"\nfeatures = 3.5\nseed = 1', "features"),
        ('kind = "random-relu"\nfeatures = 3\nseed = -1', "seed = -1"),
        ('kind = "random-relu"\nfeatures = 3', "seed: this field is missing"),
        ('kind = "random-fourier"\nfeatures = 3\nseed = 1', "come in pairs"),
        ('kind = "random-fourier"\nfeatures = 4\nseed = 1\nscale = 0', "scale = 0.0 is not a finite number"),
        (RELU + "weight = 0", "weight = 0"),
        (RELU + 'origin = "lo"', "'lo' is not one of middle, low"),
        (RELU + 'columns = ["pixel7", "pixel196"]', "'pixel196' is not declared"),
        (RELU + 'columns = ["pixel{0..3}", "pixel2"]', "named twice"),
        ('kind = "ball"\nbound = 3', "low = -3 and high = 3"),
        ('kind = "ball"\nbound = 255\nname = "mine"', "Write both, or neither"),
        ('kind = "ball"\nbound = 255\nname = "mine"\nsha256 = "abc"', "64 hexadecimal digits"),
        ("features = 2", "map.kind: this field is missing. It is one of random-relu"),
    ],
)
def test_a_corrupt_map_is_pointed_at(table: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.parse(SCHEMA + table, name="eye.toml")


def test_maps_of_numbers_refuse_other_columns_and_transforms() -> None:
    logarithmic = NumericColumn("income", 0, 100, "log1p")
    for columns, rule, message in (
        ((SEX, *PIXELS[1:]), GradientHistogram(4, 5, 2), "column 'sex' is declared otherwise"),
        ((logarithmic,), Ball(100.0), "has a transform"),
        ((NumericColumn("x", -1, 1, encoding="hats"),), Ball(1.0), "Leave encoding out"),
        ((NumericColumn("x", -1, 1, missing="category"),), Ball(1.0), "Leave missing out"),
    ):
        with pytest.raises(SchemaError, match=message):
            Schema("id", untyped(columns), map=FeatureMap(rule))
    with pytest.raises(Misdeclared, match="no columns are declared"):
        FeatureMap(Ball(1.0)).check(())


@pytest.mark.parametrize("rule", [RandomRelu(16, 1), RandomRelu(16, 1, "low"), RandomFourier(16, 1)], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_a_random_map_takes_numbers_and_dates_as_they_are_declared(
    rule: RandomRelu | RandomFourier, mode: Mode
) -> None:
    hats = NumericColumn("age", 0, 8, encoding="hats", knots=5, missing="category")
    seen = DateColumn("seen", date(2000, 1, 1), date(2020, 1, 1), missing="category")
    rows = untyped({"age": [0.0, 3.5, None, 8.0], "seen": [date(2001, 2, 3), None, None, date(2019, 1, 1)]})
    encoder = Encoder((hats, seen), mode, FeatureMap(rule))
    features = encoder.encode(rows)
    assert (np.linalg.norm(features, axis=1) <= math.sqrt(encoder.attributes) + 1e-12).all()
    inner = Encoder((hats, seen), "linear" if rule.linear else mode).encode(rows)
    np.testing.assert_allclose(features, rule.apply(inner.T, 2).T * math.sqrt(2), atol=1e-6)
    assert len(np.unique(features.round(9), axis=0)) == 4
    assert Encoder.from_data(json.loads(json.dumps(encoder.to_data()))) == encoder


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3), st.integers(0, 3))
def test_a_name_with_ranges_stands_for_every_combination_once(
    low: int, more: int, first: int, then: int
) -> None:
    names = expand_name(f"a{{{low}..{low + more}}}b{{{first}..{first + then}}}", ("columns",))
    assert len(set(names)) == len(names) == (more + 1) * (then + 1)
    assert names[0] == f"a{low}b{first}" and names[-1] == f"a{low + more}b{first + then}"
    assert expand_name("a{x..y}", ("columns",)) == ("a{x..y}",)


@given(
    st.lists(
        st.sampled_from(["x", "pixel ", "1x", "", "0"]).flatmap(
            lambda head: st.tuples(st.just(head), st.integers(0, 30), st.integers(1, 25))
        ),
        max_size=4,
    )
)
def test_folded_names_stand_for_what_was_folded(runs: list[tuple[str, int, int]]) -> None:
    names = [f"{head}{number}" for head, first, count in runs for number in range(first, first + count)]
    folded = fold_names(names)
    assert [name for one in folded for name in expand_name(one, ("columns",))] == names


def test_a_draft_of_pixels_is_short_and_its_check_knows_every_column(tmp_path: Path) -> None:
    data = tmp_path / "eye.csv"
    data.write_text(
        ",".join(["id", *(f"pixel{place}" for place in range(40))]) + "\n" + ",".join(["7"] + ["3"] * 40)
    )
    drafted = draft(FileSource(data)).text
    assert drafted.count("[columns.") == 1
    schema = tmp_path / "eye.toml"
    schema.write_text(drafted.replace('low = ""', "low = 0").replace('high = ""', "high = 255"))
    assert check_schema(schema, FileSource(data)).complete
    schema.write_text(schema.read_text().replace("0..39", "0..40"))
    assert check_schema(schema, FileSource(data)).absent == (
        f"column 'pixel40' is declared but not in the {FileSource(data)}. Did you mean 'pixel4'?",
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x{5..1}", "runs backwards"),
        ("x{0..99999}", "stands for 100000 columns"),
        ("{0..999}x{0..999}", "1000000"),
    ],
)
def test_ranges_that_cannot_be_meant_are_refused_where_they_stand(name: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.parse(f'id = "n"\ncolumns."{name}" = {{kind = "numeric", low = 0, high = 1}}')


# A party's own function: one person at a time, its norm held, and no value in any message.


OWN_SCHEMA = Schema.parse(
    """
id = "patient"
columns.weight = {kind = "numeric", low = 30, high = 200}
columns.height = {kind = "numeric", low = 1.2, high = 2.2}
columns.sex = {kind = "binary", values = ["F", "M"]}
label = {column = "ill", kind = "classes", classes = ["no", "yes"]}
"""
)
RAW: dict[str, Any] = {
    "weight": [81.0, 500.0, 64.0],
    "height": [1.8, 1.5, 1.6],
    "sex": ["M", "F", "F"],
    "ill": ["no", "yes", "no"],
}


def bmi(person: Mapping[str, Any]) -> list[float]:
    return [person["weight"] / person["height"] ** 2, 30.0 if person["sex"] == "F" else 0.0]


def test_a_table_comes_out_as_its_peers_will_know_it() -> None:
    own = OwnMap("bmi", bmi, features=2, bound=40.0, reads=("weight", "height", "sex"))
    table = own.on(Table.from_arrays("clinic", RAW, OWN_SCHEMA))
    assert [column.name for column in table.schema.columns] == ["bmi0", "bmi1"]
    (block,) = table.blocks()
    # The second weighs 200 at most, which makes a vector longer than 40.
    long = np.array([200 / 1.5**2, 30.0])
    expected = [[25.0, 0.0], *(40 * long / np.linalg.norm(long))[None], [64 / 1.6**2, 30.0]]
    np.testing.assert_allclose(np.column_stack([block.columns["bmi0"], block.columns["bmi1"]]), expected)
    assert table.clipping.counts == {"bmi": 1, "weight": 1}
    assert block.label is not None and block.label.tolist() == [0, 1, 0]
    assert list(table.ids()) == ["0", "1", "2"]


def test_columns_that_are_not_read_stay_as_they_are() -> None:
    own = OwnMap(
        "bmi", lambda person: [person["weight"]], features=1, bound=200.0, reads=("weight",), sha256=64 * "a"
    )
    schema = own.schema(OWN_SCHEMA)
    assert [column.name for column in schema.columns] == ["height", "sex", "bmi0"]
    assert schema.encoder("linear").feature_names == ("height", "sex", "bmi0")
    assert Schema.from_data(schema.to_data()) == schema
    assert schema.to_data()["map"] == {
        "kind": "ball",
        "bound": 200.0,
        "name": "bmi",
        "sha256": 64 * "a",
        "columns": ["bmi0"],
    }


def test_the_function_never_sees_two_people_at_once_and_makes_rows_for_prediction() -> None:
    seen: list[Any] = []

    def watched(person: Mapping[str, Any]) -> list[float]:
        seen.append(dict(person))
        return [0.0]

    own = OwnMap("watched", watched, features=1, bound=1.0)
    list(own.on(Table.from_arrays("clinic", RAW, OWN_SCHEMA)).blocks(size=2))
    assert [person["sex"] for person in seen] == ["M", "F", "F"]
    assert all(isinstance(person["weight"], float) for person in seen)
    own = OwnMap("bmi", bmi, features=2, bound=100.0)
    rows = own.rows({"weight": [81.0], "height": [1.8], "sex": ["M"]}, OWN_SCHEMA)
    encoder = own.schema(OWN_SCHEMA).encoder("circle")
    np.testing.assert_allclose(encoder.encode(rows), [[0.25 * math.sqrt(2), 0.0]])


@settings(max_examples=50)
@given(hnp.arrays(np.float64, (3, 2), elements=st.floats(-1e149, 1e149)), st.floats(1e-3, 1e3))
def test_whatever_the_function_gives_is_no_longer_than_declared(vectors: np.ndarray, bound: float) -> None:
    given = iter(vectors)
    own = OwnMap("any", lambda person: next(given), features=2, bound=bound, sha256=64 * "0")
    (block,) = own.on(Table.from_arrays("clinic", RAW, OWN_SCHEMA)).blocks()
    encoder = own.schema(OWN_SCHEMA).encoder("circle")
    norms = np.linalg.norm(encoder.encode(block), axis=1)
    assert norms.max() <= math.sqrt(encoder.attributes) * (1 + 1e-12)
    quantizer = Quantizer(encoder, attributes_total=2, gamma=4096)
    for row in quantizer.quantize(block):
        assert sum(int(value) ** 2 for value in row) <= quantizer.norm_squared_bound


def test_the_digest_is_that_of_the_source_or_must_be_given() -> None:
    first, again = (OwnMap("bmi", bmi, features=2, bound=40.0).sha256 for _ in range(2))
    assert first == again and len(first) == 64
    assert OwnMap("other", untyped(within), features=2, bound=40.0).sha256 != first
    with pytest.raises(SchemaError, match=r"not at hand to be hashed\. Give sha256"):
        OwnMap("sum", sum, features=1, bound=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda person: [1 / 0, person["weight"]], "stopped with ZeroDivisionError on one person"),
        (lambda person: [person["weigth"], 0], "stopped with KeyError"),
        (lambda person: [1.0], r"shape \(1,\); 2 numbers are declared"),
        (lambda person: [math.nan, 1.0], "not finite"),
        (lambda person: [1e200, 1.0], "not finite"),
        (lambda person: ["81", "x"], "stopped with ValueError"),
    ],
)
def test_what_goes_wrong_in_a_function_is_told_without_a_value(function: Any, message: str) -> None:
    own = OwnMap("mine", function, features=2, bound=1.0, sha256=64 * "0")
    with pytest.raises(DataError, match=message) as caught:
        list(own.on(Table.from_arrays("clinic", RAW, OWN_SCHEMA)).blocks())
    assert "party 'clinic'" in str(caught.value)
    assert not any(value in str(caught.value) for value in ("81", "1.8", "'M'"))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bound": 0}, "bound = 0"),
        ({"features": 0}, "features = 0"),
        ({"name": " "}, "needs a name"),
        ({"reads": ("wieght",)}, r"'wieght' is not declared\. Did you mean 'weight'"),
    ],
)
def test_declarations_that_contradict_themselves_are_refused(changes: Any, message: str) -> None:
    whole = {"name": "bmi", "function": bmi, "features": 2, "bound": 40.0}
    with pytest.raises(SchemaError, match=message):
        OwnMap(**{**whole, **changes}).schema(OWN_SCHEMA)
    own = OwnMap(**untyped(whole))
    with pytest.raises(SchemaError, match="go through 'ball' already"):
        own.schema(own.schema(OWN_SCHEMA))
