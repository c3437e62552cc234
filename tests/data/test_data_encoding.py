"""Encoders: norms for any values, inverses, and the same features however rows are cut."""

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from column_kinds import KINDS, as_given, values_of
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from typed import untyped

from colonnade.data.block import Block, clamp_columns
from colonnade.data.coding import Mode, simplex, thermometer
from colonnade.data.encoder import MODES, Encoder, Quantizer, Rounding
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
from colonnade.errors import DataError, PlanError, SchemaError
from colonnade.randomness import SeededRandomness

AGE = NumericColumn("age", low=17, high=90)
GAIN = NumericColumn("gain", low=0, high=99999, transform="log1p")
SEX = BinaryColumn("sex", values=("F", "M"))
JOB = CategoricalColumn("job", categories=("clerk", "farmer", "nurse", "other"), other="other")
COLUMNS: tuple[Column, ...] = (AGE, GAIN, SEX, JOB)
EVERY = (*COLUMNS, *KINDS)

any_number = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([17.0, 90.0, -0.0, 5e-324])
modes = st.sampled_from(MODES)


def any_rows(size: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "age": hnp.arrays(np.float64, size, elements=any_number),
            "gain": hnp.arrays(np.float64, size, elements=any_number),
            "sex": st.lists(st.sampled_from(["F", " M ", "M"]), min_size=size, max_size=size),
            "job": st.lists(st.text(min_size=1).filter(str.strip), min_size=size, max_size=size),
            **{
                column.name: st.lists(values_of(column), min_size=size, max_size=size).map(
                    partial(as_given, column)
                )
                for column in KINDS
            },
        }
    )


@given(modes, any_rows(5))
def test_every_attribute_is_a_block_of_norm_at_most_one(mode: Mode, rows: Any) -> None:
    encoder = Encoder(EVERY, mode)
    assert Encoder.from_data(json.loads(json.dumps(encoder.to_data()))) == encoder
    features = encoder.encode(rows)
    norms = np.array([np.linalg.norm(features[:, span], axis=1) for span in encoder.spans.values()])
    assert norms.max() <= 1 + 1e-12 and (mode == "linear" or norms[: len(COLUMNS)].min() >= 1 - 1e-12)


@st.composite
def numeric_columns(draw: st.DrawFn) -> NumericColumn:
    low, size = draw(st.floats(-0.9, 1e6)), draw(st.floats(1e-3, 1e6))
    encoding = draw(st.sampled_from([None, "circle", "linear", "hats"]))
    return NumericColumn(
        "x",
        low,
        low + size,
        draw(st.sampled_from(["none", "log1p"])),
        draw(st.sampled_from([None, "category"])),
        untyped(encoding),
        draw(st.integers(3, 9)) if encoding == "hats" else None,
    )


@given(numeric_columns(), modes, st.lists(st.floats(0, 1), min_size=1, max_size=9), st.data())
def test_every_encoding_of_a_number_has_norm_at_most_one_and_a_score_its_range(
    column: NumericColumn, mode: Mode, shares: list[float], data: st.DataObject
) -> None:
    values = [column.low + share * (column.high - column.low) for share in shares]
    values += [math.nan] if column.missing else []
    encoder = Encoder((column,), mode)
    assert Encoder.from_data(json.loads(json.dumps(encoder.to_data()))) == encoder
    features = encoder.encode({"x": values})
    norms = np.linalg.norm(features, axis=1)
    assert norms.max() <= 1 + 1e-12 and (column.shape(mode).shape != "circle" or norms.min() >= 1 - 1e-12)
    assert all(name == "x" or name.startswith("x:") for name in encoder.feature_names)
    scaled = np.log1p([column.low, column.high, *values]) if column.transform == "log1p" else np.array(values)
    low, high = scaled[:2] if column.transform == "log1p" else (column.low, column.high)
    places = (scaled[-len(values) :] - low) / (high - low) * 2 - 1
    np.testing.assert_allclose(features, column.shape(mode).features(places), atol=1e-6)
    # What a score can be is said without anybody's value, and by no more than it takes.
    weights = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=encoder.width, max_size=encoder.width)))
    least, most = column.score_range(weights, mode)
    scores = features @ weights
    assert least - 1e-9 <= scores.min() and scores.max() <= most + 1e-9
    finely = column.shape(mode).features(
        np.append(np.linspace(-1, 1, 20161), [math.nan][: bool(column.missing)])
    )
    assert most == pytest.approx(float((finely @ weights).max()), abs=1e-3)
    assert least == pytest.approx(float((finely @ weights).min()), abs=1e-3)


@pytest.mark.parametrize("missing", [None, "category"])
def test_a_rule_over_hats_is_any_line_with_corners_at_the_knots(missing: Any) -> None:
    column = NumericColumn("x", 0, 4, missing=missing, encoding="hats", knots=5)
    encoder = Encoder((column,), "linear")
    assert encoder.feature_names == ("x:1", "x:2", "x:3", "x:4", *(["x:missing"] if missing else []))
    at, wanted = [0.0, 1, 2, 3, 4], [3.0, -1, 5, 0, 0]
    rows, goal = [*at, *([math.nan] if missing else [])], [*wanted, *([7.0] if missing else [])]
    design = np.column_stack([encoder.encode({"x": rows}), np.ones(len(rows))])
    weights = np.linalg.solve(design, goal)
    between = np.linspace(0, 4, 33)
    found = np.column_stack([encoder.encode({"x": between}), np.ones(33)]) @ weights
    np.testing.assert_allclose(found, np.interp(between, at, wanted), atol=1e-9)


@pytest.mark.parametrize("vertices", range(2, 12))
def test_a_simplex_has_equal_angles_unit_vertices_and_its_centre_at_the_origin(vertices: int) -> None:
    corners = simplex(vertices)
    expected = np.full((vertices, vertices), -1 / (vertices - 1))
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(corners @ corners.T, expected, atol=1e-14)
    np.testing.assert_allclose(corners.sum(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("levels", [2, 3, 7, 40])
def test_ordered_levels_have_norm_one_and_their_mean_gives_every_share(levels: int, missing: bool) -> None:
    codes = thermometer(levels, missing=missing)
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-12)
    assert np.linalg.matrix_rank(np.column_stack([codes, np.ones(len(codes))])) == len(codes)


def test_ordered_neighbours_are_alike_and_what_is_missing_has_a_level() -> None:
    def distances(ordered: bool) -> list[float]:
        codes = BinnedColumn("age", (1, 2, 3), ordered=ordered).codes
        return [float(np.linalg.norm(codes[0] - code)) for code in codes[1:]]

    near, _, far = distances(True)
    assert near < far
    np.testing.assert_allclose(distances(False), distances(False)[0])
    encoder = Encoder((BinnedColumn("age", (18, 65), missing="category", ordered=True),), "circle")
    features = encoder.encode({"age": untyped([3, 30, 70, None])})
    np.testing.assert_array_equal(features, thermometer(3, missing=True))
    assert encoder.columns[0].levels == ("below 18", "18 to 65", "from 65", "missing")
    assert Encoder.from_data(json.loads(json.dumps(encoder.to_data()))) == encoder


def test_these_rows_have_these_features_and_width_spans_and_names_agree() -> None:
    rows = {"age": [17, 53.5, 90], "gain": [0, math.expm1(math.log1p(99999) / 2), 99999]}
    circle = Encoder((AGE, GAIN), "circle")
    assert circle.feature_names == ("age:sin", "age:cos", "gain:sin", "gain:cos")
    expected = [[-1, 0, -1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    np.testing.assert_allclose(circle.encode(rows), expected, atol=1e-9)
    linear = Encoder((AGE, GAIN, SEX), "linear")
    assert linear.feature_names == ("age", "gain", "sex")
    features = linear.encode({**rows, "sex": ["F", "M", "F"]})
    np.testing.assert_allclose(features, [[-1, -1, -1], [0, 0, 1], [1, 1, -1]], atol=1e-9)
    for mode in MODES:
        encoder = Encoder(COLUMNS, mode)
        assert encoder.attributes == 4
        assert encoder.width == len(encoder.feature_names) == encoder.encode(rows_of(1)).shape[1]
        assert [s.start for s in encoder.spans.values()][1:] == [s.stop for s in encoder.spans.values()][:-1]
    assert Encoder((JOB,), "linear").feature_names == ("job:farmer", "job:nurse", "job:other")


def rows_of(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    return {
        "age": rng.uniform(0, 120, count),
        "gain": rng.integers(0, 10**6, count),
        "sex": rng.choice(["F", "M"], count),
        "job": rng.choice(["clerk", "farmer", "nurse", "other", "pilot"], count),
        **{
            column.name: as_given(column, np.resize(column.levels, count).tolist())
            if column.reads == "levels"
            else as_given(column, rng.uniform(-100, 30000, count).tolist())
            for column in KINDS
        },
    }


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_encoded_alike_alone_and_in_a_long_table(mode: Mode) -> None:
    rows = rows_of(10_001)
    encoder = Encoder(EVERY, mode)
    whole = encoder.encode(rows)
    for start in (0, 4095, 4096, 10_000):
        one = {name: values[start : start + 1] for name, values in rows.items()}
        np.testing.assert_allclose(encoder.encode(one), whole[start : start + 1], rtol=0, atol=1e-15)


def test_bad_rows_are_refused_by_column_and_count_and_features_of_one_name_too() -> None:
    encoder = Encoder(COLUMNS, "circle")
    rows = rows_of(3)
    with pytest.raises(DataError, match=r"'job' is declared but missing. Did you mean 'jobs'"):
        encoder.encode({**{k: v for k, v in rows.items() if k != "job"}, "jobs": rows["job"]})
    with pytest.raises(DataError, match="column 'age': 1 value is missing") as raised:
        encoder.encode({**rows, "age": [float("nan"), 31337, 20]})
    assert "31337" not in str(raised.value)
    with pytest.raises(DataError, match="column 'sex': 2 values are not among the declared") as raised:
        encoder.encode({**rows, "sex": ["F", "secret", "secret"]})
    assert "secret" not in str(raised.value)
    with pytest.raises(DataError, match="different lengths"):
        encoder.encode({**rows, "age": [1.0]})
    with pytest.raises(SchemaError, match="needs column 'age'"):
        encoder.encode(Block({}, None, 0))
    for wrong in ({}, {"mode": "square", "columns": []}, {"mode": "circle", "columns": 3}):
        with pytest.raises(SchemaError):
            Encoder.from_data(wrong)
    clash = (NumericColumn("a", 0, 1), NumericColumn("a:sin", 0, 1), BinaryColumn("a:cos", ("x", "y")))
    with pytest.raises(SchemaError, match="'a:cos'"):
        Encoder(clash, "circle")


# Quantizers: the norm that privacy rests on holds for any values, decided on integers.


QUANTIZED_JOB = CategoricalColumn("job", categories=tuple("abcdefg"))
QUANTIZED_COLUMNS = (AGE, GAIN, SEX, QUANTIZED_JOB)

roundings = st.sampled_from(["nearest", "toward_zero", "retry"])
caps = st.none() | st.fractions(min_value=Fraction(1, 1000), max_value=1)


def exact_norms(integers: np.ndarray) -> list[int]:
    return [sum(int(value) ** 2 for value in row) for row in integers]


@st.composite
def hostile_blocks(draw: st.DrawFn) -> Block:
    """Blocks no table would make: any finite float, any level number."""
    size = 4
    floats = hnp.arrays(np.float64, size, elements=st.floats(allow_nan=False, allow_infinity=False))
    codes = hnp.arrays(np.int32, size)
    return Block(
        {"age": draw(floats), "gain": np.maximum(draw(floats), -0.5), "sex": draw(codes), "job": draw(codes)},
        None,
        size,
    )


@given(modes, roundings, caps, st.integers(2**12, 2**28), st.integers(4, 40), hostile_blocks())
def test_no_row_exceeds_the_norm_bound_whatever_reaches_the_quantizer(
    mode: Mode, rounding: Rounding, cap: Fraction | None, gamma: int, total: int, block: Block
) -> None:
    quantizer = Quantizer(Encoder(QUANTIZED_COLUMNS, mode), total, gamma, cap, rounding)
    with np.errstate(over="ignore"):
        integers = quantizer.quantize(block, SeededRandomness(1))
    assert integers.dtype == np.int64
    assert max(exact_norms(integers)) <= quantizer.norm_squared_bound


class Swollen(Encoder):
    """An encoder that breaks its promise by a factor, to see that the quantizer does not rely on it."""

    def pieces(self, block: Block, *, scale: float = 1.0) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        for rows, piece in super().pieces(block, scale=scale):
            yield rows, piece * 1.7


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounding", ["nearest", "retry"])
def test_an_encoder_that_overshoots_is_cut_back_on_integers(mode: Mode, rounding: Rounding) -> None:
    rows = random_rows(500)
    quantizer = Quantizer(Swollen(QUANTIZED_COLUMNS, mode), 4, 4096, rounding=rounding)
    norms = exact_norms(quantizer.quantize(rows, SeededRandomness(1)))
    assert max(norms) <= quantizer.norm_squared_bound
    # The cut keeps the direction, so rows come out nearly as long as allowed.
    assert np.median(norms) > 0.98 * quantizer.norm_squared_bound


@pytest.mark.parametrize("rounding", ["nearest", "toward_zero"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_encoder_that_overshoots_on_one_side_only_is_cut_back_too(rounding: Rounding, sign: float) -> None:
    columns = tuple(NumericColumn(name, low=-1, high=1) for name in "ab")
    quantizer = Quantizer(Swollen(columns, "linear"), 2, 4096, rounding=rounding)
    # One entry far out, and none as far on the other side, nor even across zero.
    rows = {"a": sign * np.array([1.0, 0.1, 0.01]), "b": sign * np.array([1.0, 0.01, 0.1])}
    integers = quantizer.quantize(rows)
    assert max(exact_norms(integers)) <= quantizer.norm_squared_bound
    assert (np.sign(integers) == sign).all()


def random_rows(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "age": rng.choice([17.0, 90.0], count) if count < 1000 else rng.uniform(17, 90, count),
        "gain": rng.choice([0.0, 99999.0], count),
        "sex": rng.choice(["F", "M"], count),
        "job": rng.choice(list("abcdefg"), count),
    }


@given(modes, st.integers(2**12, 2**20), st.integers(4, 40))
def test_integers_are_the_features_to_half_a_step(mode: Mode, gamma: int, total: int) -> None:
    quantizer = Quantizer(Encoder(QUANTIZED_COLUMNS, mode), total, gamma)
    rows = random_rows(50)
    features = quantizer.encoder.encode(rows)
    error = quantizer.quantize(rows) * (math.sqrt(total) / gamma) - features
    assert np.abs(error).max() <= 0.5 * math.sqrt(total) / gamma * (1 + 1e-9)


@given(modes, st.integers(1, 9))
def test_a_smaller_cap_shortens_rows_to_the_cap(mode: Mode, tenths: int) -> None:
    cap = Fraction(tenths, 10) * Fraction(4, 8)
    quantizer = Quantizer(Encoder(QUANTIZED_COLUMNS, mode), 8, 2**20, cap)
    norms = np.array(exact_norms(quantizer.quantize(random_rows(50))), dtype=np.float64)
    np.testing.assert_allclose(norms / 2.0**40, float(cap), rtol=1e-4)


def test_the_bound_is_the_proved_one_and_rounding_to_nearest_needs_it() -> None:
    encoder = Encoder(QUANTIZED_COLUMNS, "circle")  # 2 + 2 + 1 + 6 = 11 features of 4 attributes
    bound = Quantizer(encoder, 16, 4096).norm_squared_bound
    assert bound == math.floor((4096 * math.sqrt(4 / 16) + math.sqrt(11) / 2) ** 2)
    assert Quantizer(encoder, 16, 4096, rounding="toward_zero").norm_squared_bound == 4096**2 // 4
    # The control for the bound: rounded rows do exceed γ²c², so a bound without √n/2 would be wrong.
    columns = tuple(NumericColumn(f"x{i}", low=-1, high=1) for i in range(40))
    quantizer = Quantizer(Encoder(columns, "linear"), 41, 4096)
    row = {column.name: [1.0] for column in columns}
    (norm,) = exact_norms(quantizer.quantize(row))
    assert 4096**2 * 40 / 41 < norm <= quantizer.norm_squared_bound


def test_no_columns_give_no_entries_no_number_no_integer_and_no_coins_no_retry() -> None:
    quantizer = Quantizer(Encoder((), "linear"), 5, 4096)
    assert quantizer.quantize(Block({}, None, 3)).shape == (3, 0)
    assert quantizer.norm_squared_bound == 0
    quantizer = Quantizer(Encoder((AGE,), "linear"), 1, 4096)
    with pytest.raises(DataError, match="not a finite number"):
        quantizer.quantize(Block({"age": np.array([np.nan])}, None, 1))
    quantizer = Quantizer(Encoder((AGE,), "linear"), 1, 16, rounding="retry")
    with pytest.raises(TypeError, match="needs coins"):
        quantizer.quantize({"age": [40]})


@given(modes, st.sampled_from([4, 16, 64, 4096]), st.integers(0, 1000))
def test_retry_keeps_the_papers_bound_on_coarse_grids(mode: Mode, gamma: int, seed: int) -> None:
    quantizer = Quantizer(Encoder(QUANTIZED_COLUMNS, mode), 4, gamma, rounding="retry")
    assert quantizer.norm_squared_bound == gamma**2 + quantizer.width
    integers = quantizer.quantize(random_rows(200), SeededRandomness(seed))
    assert max(exact_norms(integers)) <= quantizer.norm_squared_bound


def test_retry_is_right_on_average_where_nearest_is_not() -> None:
    """At γ = 4 an entry of 1.3 rounds to 1 or 2; the mean of 20,000 draws is within 6 standard errors of it."""
    encoder = Encoder((NumericColumn("x", low=-1, high=1),), "linear")
    quantizer = Quantizer(encoder, 1, 4, rounding="retry")
    drawn = quantizer.quantize({"x": np.full(20_000, 0.325)}, SeededRandomness(3))
    assert abs(drawn.mean() - 1.3) < 6 * math.sqrt(0.21 / 20_000)
    assert abs(np.rint(1.3) - 1.3) > 6 * math.sqrt(0.21 / 20_000)


@pytest.mark.parametrize(
    ("total", "gamma", "cap", "rounding", "part"),
    [
        (4, 4095, None, "nearest", "gamma = 4095"),
        (4, 2**28 + 1, None, "nearest", "gamma"),
        (3, 4096, None, "nearest", "3 attributes in all"),
        (4, 4096, Fraction(0), "nearest", "outside 0 to 1"),
        (4, 4096, Fraction(9, 8), "nearest", "outside 0 to 1"),
        (4, 4096, None, "upward", "'upward'"),
        (4, 3, None, "retry", "gamma = 3 is outside 4"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    total: int, gamma: int, cap: Fraction | None, rounding: Rounding, part: str
) -> None:
    with pytest.raises(PlanError, match=part):
        Quantizer(Encoder(QUANTIZED_COLUMNS, "linear"), total, gamma, cap, rounding)


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)), st.integers(0, 2**58))
@example(np.zeros((0, 4), dtype=np.int64), 1)
def test_clamping_holds_any_integers_to_the_bound_and_grows_no_entry(rows: np.ndarray, bound: int) -> None:
    before = rows.copy()
    clamp_columns(rows, bound)
    for old, new in zip(before.T.tolist(), rows.T.tolist(), strict=True):
        assert sum(v * v for v in new) <= bound
        assert all(abs(b) <= abs(a) and a * b >= 0 for a, b in zip(old, new, strict=True))
        if sum(v * v for v in old) <= bound:
            assert old == new


@given(st.lists(st.integers(-(2**26), 2**26), min_size=2, max_size=8), st.integers(2**30, 2**40))
def test_clamping_keeps_the_direction(row: list[int], bound: int) -> None:
    rows = np.array([row]).T
    clamp_columns(rows, bound)
    scale = min(1.0, math.sqrt(bound / max(1, sum(v * v for v in row))))
    np.testing.assert_allclose(rows[:, 0], np.array(row) * scale, atol=1.0 + 1e-6)
