"""The verbs themselves: what they print, what they write, how fast they answer."""

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_project import ROWS, Cli, Project, one_object, train

from colonnade import MomentRelease
from colonnade.cli.app import app
from colonnade.cli.demo_files import INCOMES, PARTIES, PEOPLE, RICH, census

INPUT = 3


def test_a_run_writes_release_report_and_facts_and_says_where(project: Project, cli: Cli) -> None:
    out = cli("train job.toml --output runs/first")
    folder = project.path("runs/first")
    assert sorted(path.name for path in folder.iterdir()) == [
        "facts.json",
        "model.json",
        "parties",
        "release.npz",
        "report.html",
    ]
    facts = one_object((folder / "facts.json").read_text())
    page = html.unescape((folder / "report.html").read_text())
    for item in facts["guarantees"]:
        assert item["sentence"] not in out and item["sentence"] in page
    assert "Report: runs/first/report.html" in out
    release = MomentRelease.load(folder / "release.npz")
    assert release.run == facts["run"] and release.plan == facts["plan"]["hash"]


def test_train_as_json_is_one_object_and_nothing_else(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(project, "--json") == 0
    printed = capsys.readouterr()
    facts = one_object(printed.out)
    assert printed.err == "" and printed.out.count("\n") == 1
    assert facts["report"] == "runs/job/report.html" and facts["private"] is True
    assert facts["measured"] is None, "exact accuracy on private rows would be a release"


def test_a_refusal_of_one_party_costs_the_other_nothing_also_where_rows_differ(
    project: Project, cli: Cli
) -> None:
    lines = project.path("insurer.csv").read_text().splitlines()
    project.path("insurer.csv").write_text("\n".join(lines[:-5]) + "\n")
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 0.5")
    assert "insurer: releasing" in cli("train job.toml", code=5)
    assert project.charges("bank") == project.charges("insurer") == 0


def test_a_release_that_teaches_nothing_is_kept_all_the_same(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    # The noise drowns both counts: either is below 0 half of the time, so 16 tries fail once in 4^16.
    project.edit("job.toml", "epsilon = 1.0", "epsilon = 0.001")
    # Private data would be refused before it is charged.
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience", "public = true\npatience")
    tries = 1
    while train(project, "--output", f"run{tries}") != INPUT:
        tries += 1
        assert tries <= 16
    kept = project.path(f"run{tries}")
    assert f"release was paid for and is good: run{tries}/release.npz" in capsys.readouterr().err
    assert MomentRelease.load(kept / "release.npz").rows == ROWS
    assert "No model was learnt" in (kept / "report.html").read_text()
    assert project.charges("bank") == tries


def test_the_demonstration_shows_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    out = cli("demo --people few --verbose")
    assert "private model, accuracy" in out and "non-private model, accuracy" in out
    facts = one_object(Path("demo-run/run/facts.json").read_text())
    observers = {item["observer"] for item in facts["guarantees"]}
    assert observers == {"server", "reader", "party:clinic", "party:laboratory"}
    assert all(item["sentence"] in out for item in facts["guarantees"])
    private, central, commonest = facts["measured"].values()
    assert 0.6 < private <= 1 and 0.9 < central <= 1 and 0.5 < commonest < 0.7
    assert Path("demo-run/run/report.html").is_file() and "Report: demo-run/run/report.html" in out
    # The examples of the help are about these files; tests/docs runs more of them.
    cli("predict demo-run/run --rows demo-run/new-patients.csv --id patient --output scores.csv")
    assert Path("scores.csv").read_text().count("\n") == 1 + 114
    cli("predict demo-run/run demo-run/visits/job.toml")
    cli("ledger demo-run/clinic.ledger --witness demo-run/laboratory.ledger")
    # A second demonstration leaves the first as it is, and a folder that is named is never taken twice.
    shown = cli.facts("demo --epsilon 2 --people few")
    assert shown["report"] == "demo-run-2/run/report.html"
    assert "income" not in shown and not Path("demo-run-2/income").exists()
    cli("demo --output demo-run", code=INPUT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-run", "demo-run-2", "scores.csv"]


def test_the_people_of_the_demonstration_are_those_that_the_published_tables_count() -> None:
    for columns in PARTIES.values():
        for counts in columns.values():
            assert [sum(count) for count in zip(*counts.values(), strict=True)] == [PEOPLE, RICH]
    made = census().values
    rich = made["income"] == INCOMES[1]
    assert rich.sum() == RICH and (rich & (made["education"] == "master")).sum() == 959
    assert (made["occupation"] == "management").sum() == 4066


def verbs(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    command = typer.main.get_command(app) if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        return [path]
    return [verb for name, one in inner.items() for verb in verbs(one, (*path, name))]


@pytest.mark.parametrize("verb", verbs(), ids=" ".join)
def test_every_verb_has_help_with_an_example_and_speaks_json(cli: Cli, verb: tuple[str, ...]) -> None:
    out = cli(*verb, "--help")
    assert re.search(rf"^ +colonnade {' '.join(verb)}( |$)", out, re.MULTILINE), out
    assert "Example" in out
    assert "--json" in out
    announced = out.split("Options:")[0].splitlines()[2].strip()
    assert len(announced) > 15, "the first line says what it does"


def test_nothing_asked_is_help_not_an_error(cli: Cli) -> None:
    assert "Commands:" in cli()
    assert cli("--version").startswith("colonnade ")


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["train", "--help"], "numpy scipy sklearn numba duckdb pyarrow matplotlib"),
        (["train", "job.toml", "--json"], "sklearn torch scipy.stats scipy.optimize matplotlib"),
        (["ledger", "bank.toml"], "sklearn torch scipy.stats scipy.optimize numba"),
    ],
    ids=["help", "a run by moments", "a ledger"],
)
def test_a_verb_waits_for_no_library_that_it_does_not_need(
    trained: Project, words: list[str], heavy: str
) -> None:
    # A process of its own, because tests have loaded everything.
    script = (
        f"import sys\nfrom colonnade.cli.app import run\nassert run({words}) == 0\n"
        f"sys.exit(', '.join(set({heavy.split()}) & set(sys.modules)) or 0)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=trained.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_mistake_of_ours_is_owned_without_a_traceback_or_a_value(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("row 17 is Jane Doe")

    monkeypatch.setattr("colonnade.federation.job.Job.load", broken)
    err = cli("train job.toml", code=1)
    assert "TypeError" in err and "Jane" not in err and "Traceback" not in err
    monkeypatch.setenv("COLONNADE_TRACEBACK", "1")
    with pytest.raises(TypeError):
        train(project)


def test_the_tab_key_offers_verbs_and_options_and_leaves_files_to_the_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_COLONNADE_COMPLETE", "complete_bash")
    for line, offered in (
        ("tr", ["train"]),
        ("privacy mom", ["moments"]),
        ("train --ou", ["--output"]),
        ("train ", []),
    ):
        monkeypatch.setenv("COMP_WORDS", f"colonnade {line}")
        monkeypatch.setenv("COMP_CWORD", str(1 + line.count(" ")))
        with pytest.raises(SystemExit):
            app(args=[], prog_name="colonnade")
        assert capsys.readouterr().out.split() == offered, line
