"""Nobody who was trained on gets an exact score: not under other rules for ids, not by another model."""

import shutil
import stat
from typing import Any

import pytest
from cli_project import Cli, Project, train

from colonnade.cli.app import run
from colonnade.ledger import Ledger

DATA, REFUSED = 3, 5
FILES = ("bank", "insurer")


def named_by(project: Project, declared: str) -> None:
    for party in FILES:
        project.edit(f"{party}.schema.toml", 'id = "customer"', f"id = {declared}")


def exact(project: Project) -> int:
    return sum(release.exact for release in releases(project, "insurer"))


def releases(project: Project, party: str) -> list[Any]:
    from colonnade.ledger.release import Release

    entries = Ledger.open(project.path(f"{party}.ledger")).entries()
    return [Release.from_data(entry.body["release"]) for entry in entries if entry.kind == "charge"]


def only(project: Project, kept: range) -> None:
    for party in FILES:
        whole = project.path(f"{party}.whole")
        if not whole.exists():
            shutil.copy(project.path(f"{party}.csv"), whole)
        header, *rows = whole.read_text().splitlines()
        project.path(f"{party}.csv").write_text("\n".join([header, *(rows[n] for n in kept)]) + "\n")


@pytest.mark.parametrize(
    "declared",
    [
        '{column = "customer", case = "lower"}',
        '{column = "customer", case = "fold", unicode = "NFKC"}',
        '{column = "customer", trim = false}',
    ],
)
def test_ids_respelt_by_other_rules_get_no_exact_scores(trained: Project, cli: Cli, declared: str) -> None:
    named_by(trained, declared)
    said = cli("predict run job.toml", code=REFUSED)
    assert "people were trained on under ids of column 'customer' with trim = true, case = \"exact\"" in said
    assert "nobody can tell who of them was trained on" in said and "--epsilon" in said
    assert exact(trained) == 0
    # Noise covers whoever they are.
    assert run(["predict", "run", "job.toml", "--epsilon", "1"]) == 0


def test_people_of_one_training_get_no_exact_scores_by_the_model_of_another(
    project: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    only(project, range(200))
    assert train(project, "--output", "first") == 0
    only(project, range(200, 300))
    assert train(project, "--output", "second") == 0
    only(project, range(100, 200))
    capsys.readouterr()
    for model in ("first", "second", "second/model.json"):
        assert "100 of the 100 people to score were trained on" in cli(
            "predict", model, "job.toml", code=REFUSED
        )
    # Another name for the data set makes nobody another person.
    for party in FILES:
        project.edit(f"{party}.toml", 'dataset = "customers"', 'dataset = "visitors"')
    for model in ("first", "second"):
        assert run(["predict", model, "job.toml"]) == REFUSED
    only(project, range(300, 400))
    found = cli.facts("predict second job.toml")
    assert found["exact"] == 100 and "no ε covers them" in found["statement"]
    assert exact(project) == 100
    only(project, range(310, 400))
    assert "EXACT scores of 90 people were disclosed" in cli("predict second job.toml")


def test_the_lists_are_their_partys_own_and_a_damaged_one_is_found_before_anything_is_charged(
    trained: Project, cli: Cli
) -> None:
    lists = sorted(trained.folder.glob("*.ledger.people.*.npz"))
    assert [path.name.split(".")[0] for path in lists] == list(FILES)
    for path in (*lists, *trained.folder.glob("run/parties/*.people.npz")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lists[0].write_bytes(lists[0].read_bytes()[:100])
    charged = trained.charges("insurer")
    assert f"{lists[0].name} does not hold the people" in cli("train job.toml --output again", code=DATA)
    assert trained.charges("insurer") == charged
