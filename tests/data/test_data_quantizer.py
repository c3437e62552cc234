"""Quantizers: the norm that privacy rests on holds for any values, decided on integers."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from colonnade.data.block import Block, clamp_columns
from colonnade.data.coding import Mode
from colonnade.data.encoder import MODES, Encoder, Quantizer, Rounding
from colonnade.data.kinds import NumericColumn
from colonnade.data.levels import BinaryColumn, CategoricalColumn
from colonnade.errors import DataError, PlanError
from colonnade.randomness import SeededRandomness

AGE = NumericColumn("age", low=17, high=90)
GAIN = NumericColumn("gain", low=0, high=99999, transform="log1p")
SEX = BinaryColumn("sex", values=("F", "M"))
JOB = CategoricalColumn("job", categories=tuple("abcdefg"))
COLUMNS = (AGE, GAIN, SEX, JOB)

modes = st.sampled_from(MODES)
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
        {
            "age": draw(floats),
            "gain": np.maximum(draw(floats), -0.5),
            "sex": draw(codes),
            "job": draw(codes),
        },
        None,
        size,
    )


@given(modes, roundings, caps, st.integers(2**12, 2**28), st.integers(4, 40), hostile_blocks())
def test_no_row_exceeds_the_norm_bound_whatever_reaches_the_quantizer(
    mode: Mode, rounding: Rounding, cap: Fraction | None, gamma: int, total: int, block: Block
) -> None:
    quantizer = Quantizer(Encoder(COLUMNS, mode), total, gamma, cap, rounding)
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
    quantizer = Quantizer(Swollen(COLUMNS, mode), 4, 4096, rounding=rounding)
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
    quantizer = Quantizer(Encoder(COLUMNS, mode), total, gamma)
    rows = random_rows(50)
    features = quantizer.encoder.encode(rows)
    error = quantizer.quantize(rows) * (math.sqrt(total) / gamma) - features
    assert np.abs(error).max() <= 0.5 * math.sqrt(total) / gamma * (1 + 1e-9)


@given(modes, st.integers(1, 9))
def test_a_smaller_cap_shortens_rows_to_the_cap(mode: Mode, tenths: int) -> None:
    cap = Fraction(tenths, 10) * Fraction(4, 8)
    quantizer = Quantizer(Encoder(COLUMNS, mode), 8, 2**20, cap)
    norms = np.array(exact_norms(quantizer.quantize(random_rows(50))), dtype=np.float64)
    np.testing.assert_allclose(norms / 2.0**40, float(cap), rtol=1e-4)


def test_the_bound_is_the_proved_one() -> None:
    encoder = Encoder(COLUMNS, "circle")  # 2 + 2 + 1 + 6 = 11 features of 4 attributes
    bound = Quantizer(encoder, 16, 4096).norm_squared_bound
    assert bound == math.floor((4096 * math.sqrt(4 / 16) + math.sqrt(11) / 2) ** 2)
    assert Quantizer(encoder, 16, 4096, rounding="toward_zero").norm_squared_bound == 4096**2 // 4


def test_rounding_to_nearest_needs_the_proved_bound_and_not_the_bare_norm() -> None:
    """The control for the bound: rounded rows do exceed γ²c², so a bound without √n/2 would be wrong."""
    columns = tuple(NumericColumn(f"x{i}", low=-1, high=1) for i in range(40))
    quantizer = Quantizer(Encoder(columns, "linear"), 41, 4096)
    row = {column.name: [1.0] for column in columns}
    (norm,) = exact_norms(quantizer.quantize(row))
    assert 4096**2 * 40 / 41 < norm <= quantizer.norm_squared_bound


def test_a_party_without_columns_gives_rows_without_entries() -> None:
    quantizer = Quantizer(Encoder((), "linear"), 5, 4096)
    assert quantizer.quantize(Block({}, None, 3)).shape == (3, 0)
    assert quantizer.norm_squared_bound == 0


def test_a_value_that_is_not_a_number_never_becomes_an_integer() -> None:
    quantizer = Quantizer(Encoder((AGE,), "linear"), 1, 4096)
    with pytest.raises(DataError, match="not a finite number"):
        quantizer.quantize(Block({"age": np.array([np.nan])}, None, 1))


@given(modes, st.sampled_from([4, 16, 64, 4096]), st.integers(0, 1000))
def test_retry_keeps_the_papers_bound_on_coarse_grids(mode: Mode, gamma: int, seed: int) -> None:
    quantizer = Quantizer(Encoder(COLUMNS, mode), 4, gamma, rounding="retry")
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


def test_retry_without_coins_is_refused() -> None:
    quantizer = Quantizer(Encoder((AGE,), "linear"), 1, 16, rounding="retry")
    with pytest.raises(TypeError, match="needs coins"):
        quantizer.quantize({"age": [40]})


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
        Quantizer(Encoder(COLUMNS, "linear"), total, gamma, cap, rounding)


@given(
    hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)),
    st.integers(0, 2**58),
)
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
