"""Tables and descriptions of a release on the command line: what they write, and what they refuse without writing."""

import json
from pathlib import Path

import pytest
from cli_project import Cli
from tables_people import people, release_with


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "release.npz"
    release_with(*people(), noise=2.0).save(path)
    return path


def test_synthesize_writes_a_table_and_its_manifest(released: Path, tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "table.csv"
    facts = cli.facts("synthesize", str(released), "-n", "300", "-o", str(target), "--seed", "4")
    assert facts["extra_epsilon"] == 0 and facts["rows"] == 300 and facts["fit"]["reached_the_noise"]
    assert len(target.read_text().splitlines()) == 301
    manifest = json.loads((tmp_path / "table.manifest.json").read_text())
    assert manifest["seed"] == 4 and manifest["not_to_do"]
    again = tmp_path / "again.csv"
    cli.facts("synthesize", str(released), "-n", "300", "-o", str(again), "--seed", "4")
    assert again.read_bytes() == target.read_bytes()
    words = ["synthesize", str(released), "-n", "50", "-o", str(tmp_path / "t.parquet"), "-c", "age"]
    assert "50 synthetic people, 3 columns" in cli(*words, "-c", "owner")
    refused = cli.facts("synthesize", str(released), "-n", "10", "-o", str(tmp_path / "t.xls"), code=3)
    assert "as .parquet or .csv" in refused["error"]["message"]


def test_describe_says_what_a_release_says_in_words_in_json_and_on_a_page(
    released: Path, tmp_path: Path, cli: Cli
) -> None:
    text = cli("describe", str(released), "-o", str(tmp_path / "page.html"))
    assert "age (bank): mean" in text and "information value" in text and "weight of evidence" in text
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4 and "age and owner" in page
    facts = cli.facts("describe", str(released))
    assert len(facts["columns"]) == 4 and len(facts["pairs"]) == 6 and facts["left_out"] == []
    error = cli.facts("describe", str(released), "-o", str(tmp_path / "page.html"), code=3)["error"]
    assert "exists already" in error["message"]


def test_describe_leaves_out_what_it_cannot_tell_and_says_so(tmp_path: Path, cli: Cli) -> None:
    from learn_releases import release_of
    from tables_people import LABEL, OWNER

    from colonnade.data.encoder import Encoder
    from colonnade.data.kinds import NumericColumn

    raw, risk = people(3000)
    for name, columns in (
        ("mixed", (NumericColumn("age", 18, 90), OWNER)),
        ("none", (NumericColumn("age", 18, 90),)),
    ):
        made = release_of([("bank", Encoder(columns, "circle"), raw)], LABEL, risk, noise=1.0)
        made.save(tmp_path / f"{name}.npz")
    assert cli.facts("describe", str(tmp_path / "mixed.npz"))["left_out"] == ["age"]
    error = cli.facts("describe", str(tmp_path / "none.npz"), code=3)["error"]
    assert "no column in bins or categories" in error["message"]
