"""Every example runs as a script in an empty folder and prints lines like those in `examples/printed`."""

import contextlib
import re
import runpy
from pathlib import Path

import pytest
from fences import ROOT, script

from colonnade.errors import PrivacyError
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.sites.policy import Policy

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
MOST_LINES = 99


def shown(name: str) -> str:
    return (ROOT / "examples" / "printed" / f"{name}.txt").read_text(encoding="utf-8")


def openings(text: str) -> list[str]:
    """Each line up to its first number, in alphabetical order: noise moves numbers, and what is ranked by them."""
    lines = (" ".join(re.split(r"[-\d\[]", line)[0].split()) for line in text.splitlines() if line.strip())
    return sorted(lines)


# Processes of FLARE, networks, attacks, a database, trees and models of one release have tests of their own.
LONG = {
    *("federation_on_one_machine", "image_quadrants", "attack_and_defence", "hospital_and_insurer_sql"),
    *("boosted_trees", "one_release_many_models"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in EXAMPLES]
)
def test_an_example_prints_lines_like_those_that_are_kept(name: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert openings(script(EXAMPLES[name]).out) == openings(shown(name))


def test_the_index_names_every_example_and_what_it_printed() -> None:
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) .*\[lines\]\(printed/\1\.txt\) \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(EXAMPLES)


def test_this_comparison_would_notice_a_line_that_is_missing_or_another() -> None:
    text = shown("four_parties")
    assert openings(text) == openings(re.sub(r"0\.\d+", "0.123", text))
    assert openings(text) != openings("\n".join(text.splitlines()[1:]))
    assert openings(text) != openings(text.replace("all four houses", "all five houses"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_says_what_to_look_at_and_takes_no_options(name: str) -> None:
    source = EXAMPLES[name].read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    assert re.search(r'^""".*^Look at: .*?^"""', source, re.MULTILINE | re.DOTALL)
    assert "argparse" not in source and "sys.argv" not in source


def test_what_the_example_of_a_federation_writes_is_in_order_without_starting_one(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES["federation_on_one_machine"]))
    example["write_houses"](tmp_path)
    accepted, refused = (Job.parse(example["JOB"].format(epsilon=epsilon)) for epsilon in (1.0, 3.0))
    for party in accepted.parties:
        PartyFile.load(tmp_path / f"{party}.toml").table().check()
        policy = Policy.load(tmp_path / f"{party}.policy.toml")
        policy.check_job(accepted, party)
        with pytest.raises(PrivacyError, match="most accepted is 2"):
            policy.check_job(refused, party)
