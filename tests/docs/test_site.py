"""Pages read the same on the site, its check finds what is wrong, figures say what the library computes and sends."""

import re
import sys

import pytest
import yaml
from fences import ROOT
from markupsafe import escape
from typed import untyped

sys.path.insert(0, str(ROOT / "docs" / "site"))
sys.path.insert(0, str(ROOT / "docs" / "figures"))

import check
import draw as drawing
import flows
import generated
import hooks
import reading
import reference
import soundness_tables as tables

from colonnade.errors import explanations
from colonnade.report.charts import Chart
from reproduction.sections import load
from reproduction.studies import STUDIES

PAGE = drawing.PAGE.read_text(encoding="utf-8")


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = "[a](docs/schema.md#the-file) [b](docs/proofs) [c](tests/docs/fences.py) [d](#here) [e](https://x.org)"
    assert reading.relinked(text, "README.md", "project/readme.md") == (
        "[a](../schema.md#the-file) [b](../proofs/README.md) [c](../source/tests/docs/fences.py.md) "
        "[d](#here) [e](https://x.org)"
    )
    deeper = reading.relinked("[g](../../examples/README.md)", "docs/how-to/choose-epsilon.md", "how-to/x.md")
    assert deeper == "[g](../source/examples/index.md)"
    assert reading.relinked("[h](../README.md)", "docs/index.md", "index.md") == "[h](project/readme.md)"


def test_code_is_left_alone() -> None:
    text = "text\n- item\n\n```text\nline\n- no item\n[x](y.md)\n```\n"
    made = reading.for_the_site(text, "docs/index.md", "index.md")
    assert made == "text\n\n- item\n\n```text\nline\n- no item\n[x](y.md)\n```\n"


def test_the_reference_has_every_room_and_every_exported_name() -> None:
    import colonnade

    assert set(reference.exported()) == {name for name in colonnade.__all__ if not name.startswith("_")}
    folders = {path.parent.name for path in (ROOT / "src" / "colonnade").glob("*/__init__.py")}
    assert set(reference.rooms()) == folders
    front = reference.pages()[reference.front_page()]
    assert [name for name in reference.exported() if f"::: colonnade.{name}\n" not in front] == []


def test_the_site_has_a_section_for_every_error_and_every_kept_result() -> None:
    errors = generated.whole("errors.md", "# Errors\n")
    assert errors.startswith("# Errors\n\n## E100\n**") and errors.count("\n## E") == len(explanations())
    papers = generated.whole("reproduction.md", "# Papers\n")
    kept = [
        section for study in STUDIES if study.page == "reproduction.md" for section in load(study.name) or []
    ]
    assert len(kept) > 30 and all(section.markdown() in papers for section in kept)
    assert generated.whole("schema.md", "text") == "text"


def test_every_page_has_its_place_in_the_navigation() -> None:
    text = re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    nav = [part for entry in yaml.safe_load(text)["nav"] for part in hooks.expanded(entry)]
    named = hooks.listed(nav)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages - set(named)) == []
    assert sorted(page for page in set(named) if named.count(page) > 1) == []


def test_the_check_of_a_site_finds_what_is_wrong() -> None:
    pages = {
        "a.html": '<h1 id="top"></h1><a href="b.html#there">x</a><a href="gone.html">y</a><a href="#no">z</a>',
        "b.html": '<h2 id="there"></h2><img src="p.svg"><script src="https://cdn.example/x.js"></script>',
    }
    broken = check.broken(pages, {*pages, "p.svg"})
    assert sorted(broken) == ["a.html: no place no on a.html", "a.html: nothing at gone.html"]
    assert check.loaded_from_elsewhere(pages["b.html"]) == ["https://cdn.example/x.js"]
    assert len(check.unspoken(pages)) == 1
    assert "colonnade.PCA is not on api/colonnade/index.md" in check.undocumented(pages)


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
    drawn = (ROOT / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8")
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
    drawn = (ROOT / "docs" / "figures" / f"flow-{name}.svg").read_text(encoding="utf-8")
    assert drawn == flows.draw(name), "python docs/figures/flows.py draws it again"


def test_every_picture_is_on_the_page() -> None:
    page = (ROOT / "docs" / "concepts" / "who-sees-what.md").read_text(encoding="utf-8")
    assert [name for name in flows.FLOWS if f"figures/flow-{name}.svg" not in page] == []


def test_the_server_of_private_messages_receives_none() -> None:
    members, arrows = flows.transcript(flows.FLOWS["private-messages"])
    announced = {arrow.receiver for arrow in arrows if flows.HOLDS[arrow.step].sort == "noisy"}
    assert "server" in members and announced == {"bank", "insurer"}
