"""Charts: what is drawn is where it belongs, names are escaped."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.report.charts import Axes, Chart, Level, Series, Style, svg

NUMBERS = st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1e-300, math.inf, -math.inf, math.nan])
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0, 1e6)), min_size=1, max_size=30)
AXES = st.builds(
    Axes,
    st.just("x"),
    st.just("y"),
    log_x=st.booleans(),
    log_y=st.booleans(),
    whole_x=st.booleans(),
    from_zero=st.booleans(),
)


def paths(drawn: str, colour: str) -> list[str]:
    return re.findall(rf'<path d="([^"]*)" fill="none" stroke="{colour}" stroke-width="1.3"', drawn)


@given(POINTS, AXES)
def test_whatever_the_numbers_a_chart_is_well_formed_and_stays_on_its_paper(
    points: list[tuple[float, float, float]], axes: Axes
) -> None:
    xs, ys, spreads = zip(*points, strict=True)
    drawn = svg(
        Chart("t", axes, (Series("one", xs, ys, spreads),), (Level(2.0, Style("#123456"), note="n"),))
    )
    root = ElementTree.fromstring(drawn)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    places = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawn)
    assert places
    assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places)
    assert "nan" not in drawn.split("</desc>")[1] and "inf" not in drawn.split("</desc>")[1]


def test_a_point_without_a_place_breaks_the_line() -> None:
    line = Series("ε", (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 2.0, math.inf, 1.0, 2.0), style=Style("#abcdef"))
    (drawn, _) = paths(svg(Chart("t", Axes("x", "y"), (line,))), "#abcdef")
    assert re.sub(r"[\d. ]+", "", drawn) == "MLML"


def test_decades_are_equally_far_apart_where_an_axis_is_logarithmic() -> None:
    line = Series("δ", (1e-9, 1e-6, 1e-3), (0.1, 1.0, 10.0), style=Style("#abcdef"))
    drawn = svg(Chart("t", Axes("x", "y", log_x=True, log_y=True), (line,)))
    (way, _) = paths(drawn, "#abcdef")
    xs, ys = zip(*((float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", way)), strict=True)
    assert xs[2] - xs[1] == pytest.approx(xs[1] - xs[0], abs=0.2)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)
    assert "10⁻⁶" in drawn and ">0.1<" in drawn


def test_names_are_written_and_not_obeyed() -> None:
    hostile = "<script>alert(1)</script>&\"'"
    level = Level(1.0, Style("#000000"), hostile, hostile)
    drawn = svg(Chart(hostile, Axes(hostile, hostile), (Series(hostile, (1.0,), (1.0,)),), (level,)))
    assert "<script" not in drawn and "&lt;script&gt;" in drawn
    ElementTree.fromstring(drawn)
