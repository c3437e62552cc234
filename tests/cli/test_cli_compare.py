"""`colonnade compare`: what it prints and writes on public data; private data: tests/corpus."""

import json

from cli_project import Cli, Project


def test_public_data_gives_a_table_a_picture_and_a_page_and_charges_nothing(
    project: Project, cli: Cli
) -> None:
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", "patience = 0.2", "patience = 0.2\npublic = true")
    methods = ("--methods", "moments,non-private,dp-sgd-laplace")
    out = cli("compare", "job.toml", *methods, "--epsilons", "2,4", "--seeds", "2", "--output", "out")
    folder = project.path("out")
    assert {path.name for path in folder.iterdir()} == {
        f"comparison.{kind}" for kind in ("html", "json", "svg")
    }
    facts = json.loads((folder / "comparison.json").read_text())
    assert [(row["method"], row["epsilon"]) for row in facts["rows"]] == [
        ("moments", 2.0),
        ("moments", 4.0),
        ("non-private", None),
        ("dp-sgd-laplace", 2.0),
        ("dp-sgd-laplace", 4.0),
    ]
    assert all(len(row["scores"]) == 2 for row in facts["rows"])
    assert "ε = 2" in out and "without any privacy" in out and "out/comparison.html" in out
    assert project.charges("bank") == project.charges("insurer") == 0
