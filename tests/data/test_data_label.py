"""Label blocks: exact norms on the integer grid, and inverses."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.coding import code
from colonnade.data.labels import ClassLabel, CountLabel, LabelBlock, RealLabel, label_from_data
from colonnade.errors import Misdeclared

CLASSES = LabelBlock(ClassLabel("income", ("low", "middle", "high")))
REAL = LabelBlock(RealLabel("price", -3, 17))
COUNT = LabelBlock(CountLabel("visits", 0, 9))
NONE = LabelBlock(None)

gammas = st.integers(2, 2**28)


@given(gammas)
def test_no_block_exceeds_half_of_gamma_squared_and_the_constant_is_as_large_as_that_allows(
    gamma: int,
) -> None:
    for block in (CLASSES, REAL, COUNT, NONE):
        assert 2 * block.norm_squared(gamma) <= gamma**2
    assert 2 * (CLASSES.constant(gamma) + 1) ** 2 > gamma**2
    assert 2 * (REAL.constant(gamma) + 1) > gamma


@given(gammas, st.lists(st.integers(0, 2), min_size=1))
def test_a_class_is_one_constant_in_its_own_column(gamma: int, codes: list[int]) -> None:
    block = CLASSES.quantize(np.array(codes), gamma)
    assert block.dtype == np.int64
    assert np.array_equal(block.argmax(axis=1), codes)
    assert np.array_equal((block**2).sum(axis=1), np.full(len(codes), CLASSES.norm_squared(gamma)))
    assert CLASSES.names(codes).tolist() == [("low", "middle", "high")[code] for code in codes]


@given(gammas, st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_real_labels_stay_within_their_norm_for_any_value(gamma: int, values: list[float]) -> None:
    block = REAL.quantize(values, gamma)
    assert np.all(block[:, 0] == gamma // 2)
    assert (block.astype(object) ** 2).sum(axis=1).max() <= REAL.norm_squared(gamma)


@given(st.integers(2**12, 2**28), st.floats(-3, 17))
def test_a_real_label_comes_back_to_half_a_step(gamma: int, value: float) -> None:
    block = REAL.quantize([value], gamma)
    back = REAL.from_unit(block[:, 1] / block[:, 0])[0]
    assert abs(back - value) <= 10 * (0.5 / (gamma // 2)) + 1e-12


def test_bounds_map_to_the_ends_and_names_and_shapes_are_known() -> None:
    assert COUNT.to_unit([0, 4.5, 9, 100]).tolist() == [-1, 0, 1, 1]
    assert COUNT.from_unit([-1, 0, 1]).tolist() == [0, 4.5, 9]
    assert RealLabel("y", low=-2, high=4).at([0, 0.5, 1]).tolist() == [-2, 1, 4]
    assert COUNT.quantize([0, 9], 4096).tolist() == [[2048, -2048], [2048, 2048]]
    assert CLASSES.entries == ("income=low", "income=middle", "income=high")
    assert (REAL.entries, NONE.entries) == (("constant", "price"), ("constant",))
    assert [b.width for b in (CLASSES, REAL, COUNT, NONE)] == [3, 2, 2, 1]
    assert [b.one_hot for b in (CLASSES, REAL, COUNT, NONE)] == [True, False, False, False]
    assert [b.kind for b in (CLASSES, REAL, COUNT, NONE)] == ["classes", "real", "count", "none"]
    for block in (CLASSES, REAL, COUNT, NONE):
        assert LabelBlock.from_data(json.loads(json.dumps(block.to_data(), sort_keys=True))) == block
    for classes, kind in (((0, 1), "i"), (("0", "1"), "O")):
        block = LabelBlock(ClassLabel("y", classes))  # type: ignore[arg-type]
        assert block.names([1, 0]).tolist() == [*classes[::-1]] and block.names([1, 0]).dtype.kind == kind


def test_without_a_label_every_row_carries_the_constant_and_labels_are_finite() -> None:
    assert NONE.quantize(None, 4096, rows=2).tolist() == [[2896], [2896]]
    assert math.floor(4096 / math.sqrt(2)) == 2896
    with pytest.raises(ValueError, match="number of rows"):
        NONE.quantize(None, 4096)
    with pytest.raises(ValueError, match="label values"):
        REAL.quantize(None, 4096, rows=2)
    with pytest.raises(ValueError, match="finite"):
        REAL.quantize([float("nan")], 4096)


def test_values_of_a_label_that_are_not_declared_are_grouped_where_a_class_takes_them_in() -> None:
    grouped = ClassLabel("cause", ("heart", "other"), other="other")
    assert code(["heart", "lungs", " liver", "other"], grouped).values.tolist() == [0, 1, 1, 1]
    assert code(np.array([None, ""], dtype=object), grouped).problems.missing == 2, (
        "what is missing is nobody's class"
    )
    assert (
        label_from_data(grouped.to_data()) == grouped and "other" not in ClassLabel("y", ("a", "b")).to_data()
    )
    whole = ClassLabel("cause", (1, 9), other=9)  # type: ignore[arg-type]
    assert label_from_data(whole.to_data()) == whole and code([1, 4], whole).values.tolist() == [0, 1]
    with pytest.raises(Misdeclared, match="'others' is not among its values"):
        ClassLabel("cause", ("heart", "other"), other="others")


@pytest.mark.parametrize("codes", [[3], [-1], [0.0], ["low"]])
def test_what_is_not_a_class_number_is_refused(codes: list[object]) -> None:
    with pytest.raises(ValueError, match="class codes"):
        CLASSES.quantize(np.array(codes), 4096)
