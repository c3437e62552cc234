"""docs/soundness.md says what the library computes; pictures of flows show what a fresh run of the protocol sends."""

import re
import sys
from pathlib import Path

import pytest
from markupsafe import escape
from typed import untyped

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "figures"))

import draw as drawing  # noqa: E402
import flows  # noqa: E402
import soundness_tables as tables  # noqa: E402

from colonnade.report.charts import Chart  # noqa: E402

PAGE = drawing.PAGE.read_text(encoding="utf-8")


def unmarked_decimals(page: str) -> list[str]:
    """Decimals outside of code, marks, tables that are computed, and the names of theorems."""
    for pattern in (drawing.TABLE, drawing.NUMBER, re.compile(r"`[^`]*`"), re.compile(r"\]\([^)]*\)")):
        page = pattern.sub("", page)
    page = re.sub(r"(Theorem|Lemma|Corollary|Section) \d+\.\d+", "", page)
    return re.findall(r"\d+\.\d+", page)


@pytest.mark.parametrize("name", untyped(tables).TABLES)
def test_a_table_is_what_the_library_computes(name: str) -> None:
    found = [text for table, text in drawing.TABLE.findall(PAGE) if table == name]
    assert found == [untyped(tables).TABLES[name]() + "\n"]


@pytest.mark.parametrize("name", untyped(tables).NUMBERS)
def test_a_number_in_a_sentence_is_what_the_library_computes(name: str) -> None:
    found = {text for number, text in drawing.NUMBER.findall(PAGE) if number == name}
    assert found == {untyped(tables).NUMBERS[name]()}


def test_every_mark_on_the_page_has_a_computation() -> None:
    assert {table for table, _ in drawing.TABLE.findall(PAGE)} == set(untyped(tables).TABLES)
    assert {number for number, _ in drawing.NUMBER.findall(PAGE)} == set(untyped(tables).NUMBERS)
    assert PAGE.count("<!-- table:") == len(untyped(tables).TABLES)


def test_no_decimal_stands_on_the_page_unmarked() -> None:
    assert unmarked_decimals(PAGE) == []
    assert unmarked_decimals("costs 3.73 here, <!--=x-->1.5<!----> there, `0.1` and Theorem 6.1") == ["3.73"]


@pytest.mark.parametrize("name", drawing.FIGURES)
def test_a_figure_shows_what_the_library_computes(name: str) -> None:
    lines, axes, title = drawing.FIGURES[name]()
    drawn = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    description = Chart(title, axes, tuple(lines)).description
    assert f"<desc>{escape(description)}</desc>" in drawn
    assert title in drawn
    assert f"figures/{name}.svg" in PAGE


def test_every_counterexample_row_is_a_row() -> None:
    """The row behind `reachable_norm_squared` is shorter than γ and rounds to what is said."""
    columns, gamma, low = 117, 16, 1
    higher = (gamma**2 - 1 - columns * low**2) // (2 * low + 1)
    room = (gamma**2 - higher * (low + 1) ** 2 - (columns - higher) * low**2) / (8 * columns * (low + 2))
    entries = [low + 1 + room] * higher + [low + room] * (columns - higher)
    assert sum(entry**2 for entry in entries) <= gamma**2
    rounded = sum((int(entry) + 1) ** 2 for entry in entries)
    assert rounded == untyped(tables).reachable_norm_squared(columns, gamma)


@pytest.mark.parametrize("name", flows.FLOWS)
def test_a_picture_shows_the_frames_of_a_fresh_run(name: str) -> None:
    drawn = (DOCS / "figures" / f"flow-{name}.svg").read_text(encoding="utf-8")
    assert drawn == flows.draw(name), "python docs/figures/flows.py draws it again"


def test_every_picture_is_on_the_page() -> None:
    page = (DOCS / "concepts" / "who-sees-what.md").read_text(encoding="utf-8")
    assert [name for name in flows.FLOWS if f"figures/flow-{name}.svg" not in page] == []


def test_the_server_of_private_messages_receives_none() -> None:
    members, arrows = flows.transcript(flows.FLOWS["intermediate"])
    announced = {arrow.receiver for arrow in arrows if flows.HOLDS[arrow.step].sort == "noisy"}
    assert "server" in members and announced == {"bank", "insurer"}
