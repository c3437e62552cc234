"""The frame of the studies: a quick run of one, what is kept of it, and the page that is made of what is kept."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAMES = (
    "functional_mechanism",
    "skellam",
    "private_messages",
    "vertical_logistic",
    "poisson_binomial",
    "all_methods",
)


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_a_quick_study_gives_sections_that_survive_being_kept(tmp_path: Path) -> None:
    from reproduction.functional_synthetic import synthetic_error
    from reproduction.sections import load, save

    section = synthetic_error(rows=400, features=5, repetitions=2)
    save("study", [section], folder=tmp_path)
    assert load("study", folder=tmp_path) == [section]
    assert load("another", folder=tmp_path) is None
    text = section.markdown()
    assert text.startswith("### Table II") and "| 0.1 | printed | 0.0033 ± 0.0101 |" in text
    errors = {row[0]: row for table in section.tables for row in table.rows if row[1] == "ours"}
    # Dense rows are hardly clipped, so that what is left is the label's own noise of 0.06.
    assert float(errors["1"][2].split(" ")[0]) < 0.006, "least squares without noise finds the line"


def test_the_page_names_every_paper_and_says_what_was_not_run() -> None:
    from reproduction.page import page
    from reproduction.sections import Section
    from reproduction.studies import STUDIES

    made = page({STUDIES[0].name: [Section("Table 0", "Words.", seconds=3.0, command="run me")]})
    assert all(f"## {study.title}" in made for study in STUDIES)
    assert "### Table 0\n\nWords.\n\n`run me`, 3 s" in made
    assert made.count("Not run yet") == len(STUDIES) - 1


def test_the_page_in_the_documents_is_the_one_that_the_kept_results_make() -> None:
    from reproduction.page import PAGE, page
    from reproduction.sections import load
    from reproduction.studies import STUDIES

    assert PAGE.read_text(encoding="utf-8") == page({study.name: load(study.name) for study in STUDIES}), (
        "python -m reproduction --page writes it again"
    )


def test_every_table_and_figure_is_listed_with_what_was_run_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from reproduction.__main__ import main
    from reproduction.exhibits import EXHIBITS
    from reproduction.sections import load

    for exhibit in EXHIBITS:
        titles = [section.title for section in load(exhibit.study) or []]
        assert exhibit.section in titles, f"{exhibit.name}: the page has no section {exhibit.section!r}"
        assert 0 <= exhibit.run <= exhibit.printed and (exhibit.run > 0) == (exhibit.state == "run")
        assert exhibit.reason or exhibit.run == exhibit.printed, f"{exhibit.name}: nothing says why"
    monkeypatch.setattr(sys, "argv", ["reproduction", "--list", "--json"])
    main()
    found = json.loads(capsys.readouterr().out)
    here = [line for line in found["exhibits"] if line["state"] != "not at hand"]
    assert found["cells_run"] == sum(line["run"] for line in here)
    assert found["cells_run_of_printed"] == round(found["cells_run"] / found["cells_printed"], 3)


def test_a_reproduction_that_stopped_goes_on_and_loses_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from reproduction import __main__ as program
    from reproduction import sections
    from reproduction.sections import Part, Section, load
    from reproduction.studies import Study

    ran: list[str] = []
    broken = True

    def run(title: str) -> Section:
        ran.append(title)
        if title == "second" and broken:
            raise KeyboardInterrupt
        return Section(title, "Words.", seconds=1.0)

    monkeypatch.setattr(sections.keep, "__kwdefaults__", {"folder": tmp_path})
    monkeypatch.setattr(program, "load", lambda name: load(name, folder=tmp_path))
    monkeypatch.setattr(
        Study,
        "parts",
        lambda *_, **__: [Part(title, partial(run, title)) for title in ("first", "second")],
    )
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


def test_every_picture_of_the_page_is_there() -> None:
    from reproduction.sections import load
    from reproduction.studies import STUDIES

    for study in STUDIES:
        for section in load(study.name) or []:
            for picture in section.pictures:
                assert picture.path.is_file() and picture.text, picture.name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_study_runs_quickly_where_only_the_frame_is_asked_for(name: str) -> None:
    from reproduction.studies import STUDIES

    study = next(study for study in STUDIES if study.name == name)
    if not study.exists:
        pytest.skip(f"there is no module for {name}")
    parts = study.parts(Path(os.environ.get("COLONNADE_DATA") or "."), quick=True)
    assert parts and all(part.run().markdown().startswith(f"### {part.title}") for part in parts)


def test_a_study_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    from reproduction.__main__ import main

    monkeypatch.setattr(sys, "argv", ["reproduction", "--only", "alchemy"])
    with pytest.raises(SystemExit, match="no study called alchemy"):
        main()
