"""Each mistake a user can make: named, with its family's exit code, and nothing lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import Project, one_object, train

from colonnade.cli.app import run

INPUT, PLAN, PRIVACY = 3, 4, 5

Change = Callable[[Project], object]


def replaced(name: str, old: str, new: str) -> Change:
    return lambda project: project.edit(name, old, new)


def row(name: str, line: str) -> Change:
    return lambda project: project.row(name, 3, line)


def swapped(project: Project) -> None:
    lines = project.path("bank.csv").read_text().splitlines()
    lines[2], lines[3] = lines[3], lines[2]
    project.path("bank.csv").write_text("\n".join(lines) + "\n")


def shortened(project: Project) -> None:
    lines = project.path("bank.csv").read_text().splitlines()
    project.path("bank.csv").write_text("\n".join(lines[:-2]) + "\n")


def both(*changes: Change) -> Change:
    def change(project: Project) -> None:
        for one in changes:
            one(project)

    return change


EQUAL_IDS = replaced("job.toml", "delta = 1e-5", 'delta = 1e-5\nalignment = "equal"')
DATA: dict[str, tuple[Change, tuple[str, ...]]] = {
    "missing file": (lambda p: p.path("bank.csv").unlink(), ("'bank'", "bank.csv", "does not exist")),
    "missing column": (
        replaced("bank.csv", "age", "agee"),
        ("'bank'", "bank.csv", "column 'age'", "'agee'"),
    ),
    "empty file": (lambda p: p.path("bank.csv").write_text(""), ("'bank'", "bank.csv", "empty")),
    "header only": (
        lambda p: p.path("bank.csv").write_text("customer,age,job,risk\n"),
        ("'bank'", "bank.csv", "no rows"),
    ),
    "repeated id": (
        row("bank.csv", "C1,30,clerk,low"),
        ("'bank'", "bank.csv", "'customer'", "1 id is repeated"),
    ),
    "nobody in common": (
        lambda p: p.edit("bank.csv", "\nC", "\nX"),
        ("no ids in common", "same kind of id"),
    ),
    "other id": (
        both(EQUAL_IDS, row("bank.csv", "X1,30,clerk,low")),
        ("ids", "bank", "insurer", "do not match"),
    ),
    "other order": (both(EQUAL_IDS, swapped), ("different orders", "Sort")),
    "other number of rows": (both(EQUAL_IDS, shortened), ("bank", "insurer", "do not match")),
    "nan": (row("bank.csv", "C2,nan,clerk,low"), ("'bank'", "bank.csv", "'age'", "missing")),
    "no value": (row("bank.csv", "C2,,clerk,low"), ("'bank'", "bank.csv", "'age'", "missing")),
    "infinity": (row("bank.csv", "C2,inf,clerk,low"), ("'bank'", "bank.csv", "'age'", "infinite")),
    "minus infinity": (
        row("insurer.csv", "C2,-inf,no"),
        ("'insurer'", "insurer.csv", "'claims'", "infinite"),
    ),
    "text for a number": (row("bank.csv", "C2,old,clerk,low"), ("'bank'", "'age'", "text where a number")),
    "undeclared category": (
        row("bank.csv", "C2,30,pirate,low"),
        ("'bank'", "'job'", "not among the declared"),
    ),
    "undeclared binary": (
        row("insurer.csv", "C2,3,maybe"),
        ("'insurer'", "'smoker'", "not among the declared"),
    ),
    "undeclared label": (
        row("bank.csv", "C2,30,clerk,medium"),
        ("'bank'", "'risk'", "not among the declared"),
    ),
    "too few fields": (row("bank.csv", "C2,30"), ("'bank'", "bank.csv", "line 4", "fields")),
}
SCHEMA: dict[str, tuple[Change, tuple[str, ...]]] = {
    "bounds reversed": (
        replaced("bank.schema.toml", "low = 18\nhigh = 90", "low = 90\nhigh = 18"),
        ("bank.schema.toml", "line 5", "'age'", "low = 90", "high = 18"),
    ),
    "bound missing": (
        replaced("bank.schema.toml", "high = 90\n", ""),
        ("bank.schema.toml", "columns.age.high", "missing"),
    ),
    "a party without columns": (
        lambda p: p.path("insurer.schema.toml").write_text('id = "customer"\n'),
        ("insurer.schema.toml", "no columns"),
    ),
    "schema missing": (
        lambda p: p.path("bank.schema.toml").unlink(),
        ("bank.schema.toml", "does not exist"),
    ),
    "unknown kind": (
        replaced("bank.schema.toml", '"categorical"', '"categoric"'),
        ("bank.schema.toml", "columns.job", "'categoric'", "'categorical'"),
    ),
}
FILES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "no epsilon": (replaced("job.toml", "epsilon = 1.0\n", ""), ("job.toml", "epsilon", "missing")),
    "epsilon 0": (
        replaced("job.toml", "epsilon = 1.0", "epsilon = 0"),
        ("job.toml, line 6, epsilon", "found 0"),
    ),
    "epsilon below 0": (replaced("job.toml", "epsilon = 1.0", "epsilon = -1.5"), ("line 6, epsilon", "-1.5")),
    "epsilon nan": (replaced("job.toml", "epsilon = 1.0", "epsilon = nan"), ("line 6, epsilon", "finite")),
    "epsilon text": (replaced("job.toml", "epsilon = 1.0", 'epsilon = "1"'), ("line 6, epsilon", "'1'")),
    "delta 2": (replaced("job.toml", "delta = 1e-5", "delta = 2.0"), ("line 7, delta", "between 0 and 1")),
    "delta confirmed wrongly": (
        replaced("job.toml", "delta = 1e-5", "delta = 1e-5\naccepted_delta = 0.1"),
        ("line 8, accepted_delta", "0.1", "1e-05"),
    ),
    "gamma too coarse": (
        replaced("job.toml", "delta = 1e-5", "gamma = 16"),
        ("line 7, gamma", "found 16", "4096"),
    ),
    "components without pca": (
        replaced("job.toml", "delta = 1e-5", "components = 2"),
        ("line 7, components", "'classification'", "'pca'"),
    ),
    "unknown key in the job": (
        replaced("job.toml", "epsilon =", "epsilom ="),
        ("job.toml, line 6, epsilom", "unknown key", "Did you mean 'epsilon'?"),
    ),
    "unknown key in a party file": (
        replaced("bank.toml", "dataset =", "data_set ="),
        ("bank.toml, line 4, data_set", "unknown key", "Did you mean 'dataset'?"),
    ),
    "unknown task": (
        replaced("job.toml", '"classification"', '"clasification"'),
        ("job.toml, line 2, task", "'clasification'", "Did you mean 'classification'?"),
    ),
    "not toml": (replaced("job.toml", "parties = [", "parties = "), ("job.toml", "not TOML", "line 4")),
    "no party file": (
        lambda p: p.path("insurer.toml").unlink(),
        ("job.toml", "'insurer'", "insurer.toml", "--party"),
    ),
    "another party's file": (
        replaced("bank.toml", 'party = "bank"', 'party = "shop"'),
        ("bank.toml, party", "'shop'", "'bank'"),
    ),
    "no budget": (
        replaced("bank.toml", "[[budget]]\nepsilon = 4.0\ndelta = 1e-5\n", ""),
        ("bank.toml", "budget", "missing"),
    ),
    "budget of 0": (
        replaced("bank.toml", "epsilon = 4.0", "epsilon = 0"),
        ("bank.toml, line 9, budget.0.epsilon", "found 0.0", "greater than 0"),
    ),
    "budget for nobody": (
        replaced("bank.toml", "delta = 1e-5", 'delta = 1e-5\nobserver = "sever"'),
        ("bank.toml, line 11, budget.0.observer", "'sever'", "Did you mean 'server'?"),
    ),
    "second budget of 0": (
        replaced("bank.toml", "delta = 1e-5\n", "delta = 1e-5\n\n[[budget]]\nepsilon = 0\ndelta = 1e-5\n"),
        ("bank.toml, line 13, budget.1.epsilon", "found 0.0"),
    ),
    "unknown key in a second budget": (
        replaced("bank.toml", "delta = 1e-5\n", "delta = 1e-5\n\n[[budget]]\nepsilom = 1.0\ndelta = 1e-5\n"),
        ("bank.toml, line 13, budget.1.epsilom", "unknown key 'epsilom'", "Did you mean 'epsilon'?"),
    ),
    "unknown observer kind in a second budget": (
        replaced(
            "bank.toml",
            "delta = 1e-5\n",
            'delta = 1e-5\n\n[[budget]]\nepsilon = 1.0\ndelta = 1e-5\nunit = "recrod"\n',
        ),
        ("bank.toml, line 15, budget.1.unit", "'recrod'", "Did you mean 'record'?"),
    ),
    "one ledger for two": (
        replaced("bank.toml", "bank.ledger", "insurer.ledger"),
        ("insurer.toml, ledger", "bank's ledger"),
    ),
}
PLANS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "delta not below 1/n": (
        replaced("job.toml", "delta = 1e-5", "delta = 0.1"),
        ("job.toml", "delta = 0.1", "1/n", "400 rows", "accepted_delta"),
    ),
    "grid too fine": (
        replaced("job.toml", "delta = 1e-5", "gamma = 268435456"),
        ("job.toml, gamma = 268435456", "grid"),
    ),
    "too few computing parties for t": (
        replaced("job.toml", "delta = 1e-5", "threshold = 2"),
        ("job.toml", "2t + 1 = 5 computing parties", "has 3"),
    ),
    "two computing parties": (
        replaced("job.toml", "delta = 1e-5", 'computing_parties = ["bank", "insurer"]'),
        ("job.toml, line 7, computing parties", "found 2", "2t + 1"),
    ),
    "label elsewhere": (
        replaced("job.toml", 'active = "bank"', 'active = "insurer"'),
        ("job.toml, active", "'insurer'", "bank.schema.toml", "active = 'bank'"),
    ),
    "label at a party misspelt": (
        replaced("job.toml", 'active = "bank"', 'active = "bnak"'),
        ("job.toml, line 5, active", "'bnak'", "bank, insurer", "Did you mean 'bank'?"),
    ),
    "label nowhere": (
        replaced(
            "bank.schema.toml", '[label]\ncolumn = "risk"\nkind = "classes"\nclasses = ["low", "high"]\n', ""
        ),
        ("job.toml, active", "'bank'", "no schema declares"),
    ),
    "task for another label": (
        replaced("job.toml", '"classification"', '"regression"'),
        ("job.toml", "regression", "bank", "'classes'"),
    ),
    "one party": (replaced("job.toml", '"bank", "insurer"', '"bank"'), ("job.toml", "at least two")),
    "a path for a party": (
        replaced("job.toml", '"bank", "insurer"', '"bank", "../insurer"'),
        ("job.toml", "'../insurer'", "no name for a party"),
    ),
    "server with columns": (
        replaced("job.toml", "delta = 1e-5", 'server = "insurer"'),
        ("job.toml", "server 'insurer'", "no data"),
    ),
}
BUDGETS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "more than the second party grants": (
        replaced("insurer.toml", "epsilon = 4.0", "epsilon = 0.5"),
        ("insurer:", "costs ε = 1.00", "0.5 is left", "'customers'", "'server'", "Raise the budget"),
    ),
    "no budget for one observer": (
        replaced("bank.toml", "delta = 1e-5", 'delta = 1e-5\nobserver = "server"'),
        ("bank has declared no budget", "observer 'reader'"),
    ),
}
CASES = [
    pytest.param(change, code, pieces, id=name)
    for code, cases in (
        (INPUT, DATA | SCHEMA | FILES),
        (PLAN, PLANS),
        (PRIVACY, BUDGETS),
    )
    for name, (change, pieces) in cases.items()
]


@pytest.mark.parametrize(("change", "code", "pieces"), CASES)
def test_a_mistake_is_named_and_nothing_is_lost(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    change: Change,
    code: int,
    pieces: tuple[str, ...],
) -> None:
    change(project)
    before = project.files()
    assert train(project) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error E{code}") and printed.err.count("\n") == 2, printed.err
    assert all(piece in printed.err for piece in pieces), printed.err
    assert "Traceback" not in printed.err
    assert project.files() == before, "no half-written folder"
    assert project.charges("bank") == project.charges("insurer") == 0, "nothing left, so nothing is charged"


def test_the_same_mistake_as_json_is_one_object(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.path("bank.csv").unlink()
    assert train(project, "--json") == INPUT
    printed = capsys.readouterr()
    error = one_object(printed.out)["error"]
    assert (error["kind"], error["exit_code"], printed.err) == ("DataMissing", INPUT, "")
    assert "bank.csv" in error["message"]


def test_no_message_shows_a_value_from_a_data_file(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.row("bank.csv", 3, "C2,30,pirate,low")
    train(project)
    project.row("bank.csv", 3, "XSECRET,30,clerk,low")
    train(project)
    printed = capsys.readouterr()
    assert "pirate" not in printed.err and "SECRET" not in printed.err


def test_delta_past_one_over_n_needs_to_be_said_twice(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 0.1\naccepted_delta = 0.1")
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "delta = 1e-5", "delta = 0.1")
    assert train(project, "--verbose") == 0
    assert "δ = 0.1" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["out", "out/deeper"])
def test_a_folder_is_never_reused_and_a_file_is_no_folder(
    project: Project, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    project.path("out").write_text("mine")
    assert train(project, "--output", name) == INPUT
    assert name in capsys.readouterr().err
    assert project.path("out").read_text() == "mine"
    assert project.charges("bank") == 0


def test_an_output_folder_that_exists_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.path("out").mkdir()
    assert train(project, "--output", "out") == INPUT
    assert "never overwrites" in capsys.readouterr().err
    assert project.charges("bank") == 0


def read_only(folder: Path) -> Path:
    """A folder in which nobody here may write: for a superuser only the kernel's own are."""
    if os.geteuid() == 0:
        return Path("/proc")
    folder.mkdir(mode=0o555)
    return folder


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs a folder that even a superuser cannot write to")
def test_a_read_only_place_is_found_before_anything_is_charged(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    place = read_only(project.path("closed"))
    assert train(project, "--output", str(place / "run")) == INPUT
    assert f"{place / 'run'} cannot be made" in capsys.readouterr().err
    assert project.charges("bank") == 0


def test_a_job_that_is_a_directory_or_missing_is_named(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", str(project.folder)]) == INPUT
    assert "is a directory" in capsys.readouterr().err
    assert run(["train", "jbo.toml"]) == INPUT
    assert "jbo.toml does not exist. Did you mean 'job.toml'?" in capsys.readouterr().err


def test_party_files_given_by_hand_must_be_those_of_the_job(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.path("twin.toml").write_text(project.path("bank.toml").read_text())
    assert train(project, "--party", "bank.toml", "--party", "twin.toml") == INPUT
    assert "are both of 'bank'" in capsys.readouterr().err
    project.edit("twin.toml", 'party = "bank"', 'party = "shop"')
    assert train(project, "--party", "twin.toml") == INPUT
    assert "'shop'" in capsys.readouterr().err


def test_a_budget_that_the_file_dropped_is_not_kept_in_silence(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    closer = '\n[[budget]]\nepsilon = 9.0\ndelta = 1e-5\nobserver = "reader"\n'
    project.path("bank.toml").write_text(project.path("bank.toml").read_text() + closer)
    assert train(project) == 0
    project.edit("bank.toml", closer, "")
    capsys.readouterr()
    assert train(project) == INPUT
    assert "observer 'reader' (ε = 9" in capsys.readouterr().err
    assert project.charges("bank") == 1


def nothing(*_: object) -> None:
    """In place of a look before the run: as if ledgers had changed since."""


def test_what_a_party_finds_in_the_middle_of_a_run_is_told_as_that_party_found_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.row("insurer.csv", 3, "C2,nan,no")
    before = project.files()
    assert train(project) == INPUT
    err = capsys.readouterr().err
    assert "party 'insurer'" in err and "'claims'" in err and "stopped" not in err
    assert project.files() == before
    assert project.charges("bank") == project.charges("insurer") == 0


def test_a_refusal_in_the_middle_of_a_run_is_told_as_the_party_that_refused_said_it(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colonnade.federation.federation.check_budgets", nothing)
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 0.5")
    before = project.files()
    assert train(project) == PRIVACY
    err = capsys.readouterr().err
    assert err.startswith("error E501: insurer: releasing") and "stopped" not in err
    assert project.charges("insurer") == 0
    left = {"runs", "runs/job", "runs/job/failed.json"} if project.charges("bank") else set()
    assert project.files() - before == left
