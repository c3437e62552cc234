"""The frame of the studies: a quick run of one, what is kept of it, and the page that is made of what is kept."""

import json
import os
import re
import sys
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ideals import ideal_gradient, ideal_moments
from training_specs import table_of

sys.path.insert(0, str(Path(__file__).parents[2]))

from colonnade.planning.forecast import POWER_LAWS
from reproduction import __main__ as program
from reproduction import sections
from reproduction.claims import CLAIMS
from reproduction.exhibits import EXHIBITS
from reproduction.expected_law import fitted
from reproduction.functional_synthetic import synthetic_error
from reproduction.one_place import OnePlace, fused_sum
from reproduction.page import DOCS, write_pages
from reproduction.scale_page import METHODS_TRIED, TRIED, bend, section_of, slope
from reproduction.sections import Part, Section, load, save
from reproduction.studies import STUDIES, Study


def test_a_quick_study_gives_sections_that_survive_being_kept(tmp_path: Path) -> None:
    section = synthetic_error(rows=400, features=5, repetitions=2)
    save("study", [section], folder=tmp_path)
    assert load("study", folder=tmp_path) == [section]
    assert load("another", folder=tmp_path) is None
    text = section.markdown()
    assert text.startswith("### Table II") and "| 0.1 | printed | 0.0033 ± 0.0101 |" in text
    errors = {row[0]: row for table in section.tables for row in table.rows if row[1] == "ours"}
    # Dense rows are hardly clipped, so that what is left is the label's own noise of 0.06.
    assert float(errors["1"][2].split(" ")[0]) < 0.006, "least squares without noise finds the line"


def test_the_pages_in_the_documents_are_those_that_the_kept_results_make(tmp_path: Path) -> None:
    for made in write_pages({study.name: load(study.name) for study in STUDIES}, tmp_path):
        kept = (DOCS / made.name).read_text(encoding="utf-8")
        assert kept == made.read_text(encoding="utf-8"), "python -m reproduction --page writes it again"


def test_every_table_and_figure_is_listed_with_what_was_run_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for exhibit in EXHIBITS:
        titles = [section.title for section in load(exhibit.study) or []]
        assert exhibit.section in titles, f"{exhibit.name}: the page has no section {exhibit.section!r}"
        assert 0 <= exhibit.run <= exhibit.printed and (exhibit.run > 0) == (exhibit.state == "run")
        assert exhibit.state != "forecast" or exhibit.seconds > 0, f"{exhibit.name}: nothing says how long"
        assert exhibit.reason or exhibit.run == exhibit.printed, f"{exhibit.name}: nothing says why"
    monkeypatch.setattr(sys, "argv", ["reproduction", "--list", "--json"])
    program.main()
    found = json.loads(capsys.readouterr().out)
    here = [line for line in found["exhibits"] if line["state"] != "not at hand"]
    assert found["cells_run"] == sum(line["run"] for line in here)
    assert found["cells_run_of_printed"] == round(found["cells_run"] / found["cells_printed"], 3)


def test_what_is_said_of_a_claim_stands_in_the_section_that_ran_it() -> None:
    for claim in CLAIMS:
        (section,) = [one for one in load(claim.study) or [] if one.title == claim.section]
        text = section.markdown().replace(",", "")
        numbers = re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", claim.found.replace(",", ""))
        missing = [one for one in numbers if not re.search(rf"(?<![\d.]){re.escape(one)}(?![\d])", text)]
        assert not missing, f"{claim.claim}: {missing} is not in {claim.section!r}"
    of_no_paper = {"all_methods", "adult", "left_out", "scale", "what_to_expect"}
    assert {claim.study for claim in CLAIMS} == {study.name for study in STUDIES} - of_no_paper


def test_a_reproduction_that_stopped_goes_on_and_loses_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    broken = True

    def run(title: str) -> Section:
        ran.append(title)
        if title == "second" and broken:
            raise KeyboardInterrupt
        return Section(title, "Words.", seconds=1.0)

    monkeypatch.setattr(sections.keep, "__kwdefaults__", {"folder": tmp_path})
    monkeypatch.setattr(program, "load", lambda name: load(name, folder=tmp_path))
    parts = [Part(title, partial(run, title)) for title in ("first", "second")]
    monkeypatch.setattr(Study, "parts", lambda *_, **__: parts)
    wanted: dict[str, Any] = {
        "quick": False,
        "part": "",
        "anew": False,
        "progress": tmp_path / "progress.json",
    }
    with pytest.raises(KeyboardInterrupt):
        program.run_parts([Study("made", "Made up")], tmp_path, **wanted)
    broken = False
    program.run_parts([Study("made", "Made up")], tmp_path, **wanted)
    assert ran == ["first", "second", "second"]
    assert [section.title for section in load("made", folder=tmp_path) or []] == ["first", "second"]
    assert "goes on: 1 of 2 parts are done" in capsys.readouterr().out
    assert not (tmp_path / "progress.json").exists(), "the next one begins again"


@pytest.mark.parametrize("conditional", [False, True])
def test_moments_in_one_place_are_those_that_the_protocol_would_open(conditional: bool) -> None:
    draws, label = np.random.default_rng(0), "label = {column = 'y', kind = 'classes', classes = ['0', '1']}"
    tables = [
        table_of(
            party, {f"{party}{i}": draws.random(60) for i in range(2)}, declared, draws.integers(0, 2, 60)
        )
        for party, declared in (("a", label), ("b", ""))
    ]
    place = OnePlace(tables)
    options = {"conditional": conditional}
    plan = place.plan("moments", "classification", epsilon=1.0, options=options)
    assert plan.conditional == conditional
    held: Any = {table.party: table for table in place.tables}
    assert (place.exact_moments(plan).matrix == ideal_moments(held, plan)).all()
    noisy = place.moments("classification", epsilon=1.0, options=options)
    off = (noisy.matrix - place.exact_moments(plan).matrix)[noisy.opened].astype(float)
    assert 0.3 < off.var() / float(noisy.mu) < 4.0, "the noise is that of the plan"


def test_gradients_in_one_place_are_those_that_the_protocol_would_open() -> None:
    draws, gamma = np.random.default_rng(0), 1 << 12
    features = draws.integers(-gamma, gamma + 1, (50, 7))
    yes, weights = draws.integers(0, 2, 50), draws.integers(-8 * gamma, 8 * gamma, 7)
    rows = np.column_stack([features, gamma * yes]).astype(object)
    ideal = ideal_gradient(rows, weights.astype(object), gamma)
    assert fused_sum(features, gamma * (2 * yes - 1), weights, gamma).tolist() == ideal.tolist()


def test_the_law_that_plans_go_by_is_the_one_that_the_study_found() -> None:
    sections = load("what_to_expect") or []
    (found,) = [section.facts["laws"] for section in sections if "laws" in section.facts]
    assert {method: list(astuple(law)) for method, law in POWER_LAWS.items()} == found
    points = [point for section in sections for point in section.facts.get("points", [])]
    for method, law in POWER_LAWS.items():
        again = fitted([point for point in points if point["method"] == method])
        assert astuple(again) == pytest.approx(astuple(law), rel=0.02)


def test_the_page_about_plans_has_the_law_and_the_tables_that_the_study_found() -> None:
    page = (DOCS / "plan.md").read_text(encoding="utf-8")
    law, *_, squares = load("what_to_expect") or []
    assert all(table.markdown() in page for table in law.tables[:2]) and "In 4 of 40" in page
    assert "In 4 of 40 cells" in " ".join(law.text.split())
    assert all(f"figures/reproduction/{picture.name}" in page for picture in law.pictures)
    assert all(line in page for line in law.text.splitlines() if line.startswith("- "))
    words = " ".join(page.split())
    for said in ("between 0.95 and 1.31", "1.16 in the middle", "100% lie within the theorem's factor"):
        assert said in words and said in " ".join(squares.text.split())


def test_the_page_of_scale_is_what_its_runs_say() -> None:
    sections = load("scale") or []
    assert list(TRIED) == [section.facts["of"] for section in sections]
    for section in sections:
        what, runs = section.facts["of"], section.facts["runs"]
        found = {method: {int(value): run for value, run in runs[method].items()} for method in METHODS_TRIED}
        again = section_of(what, found, drawn=False)
        assert (again.text, again.tables) == (section.text, section.tables)
        assert set(found["moments"]) == set(TRIED[what])
    # The fits know a law when they see one.
    assert slope((10, 100, 1000), (5, 50, 500)) == pytest.approx((1.0, 0.5))
    assert bend((10, 100, 1000), (1010, 1100, 2000))[1] == []
    assert bend((10, 100, 1000, 10000), (1010, 1100, 2000, 11000))[1] == pytest.approx([1000])


@pytest.mark.slow
@pytest.mark.parametrize("name", [study.name for study in STUDIES if study.name != "adult"])
def test_every_study_runs_quickly_and_gives_the_tables_of_the_page(name: str) -> None:
    (study,) = [study for study in STUDIES if study.name == name]
    parts = study.parts(Path(os.environ.get("COLONNADE_DATA") or "."), quick=True)
    kept = {section.title: section for section in load(name) or []}
    assert parts
    for part in parts:
        section = part.run()
        assert section.markdown().startswith(f"### {part.title}")
        assert all(len(row) == len(table.head) for table in section.tables for row in table.rows)
        if part.title in kept:
            # The tables of a quick run are those of the page: smaller, with the same columns to begin with.
            heads = {table.head[0] for table in section.tables}
            assert heads <= {table.head[0] for table in kept[part.title].tables}, part.title
