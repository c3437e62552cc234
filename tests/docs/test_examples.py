"""Examples print what is kept of them, worked examples run on a copy, notebooks are what their sources make."""

import ast
import contextlib
import json
import re
import runpy
import shutil
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
import worked
from fences import ROOT, script
from nbformat.notebooknode import NotebookNode
from typed import untyped

from colonnade.errors import PrivacyError
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.sites.policy import Policy

sys.path.insert(0, str(ROOT))

from notebooks.making import cells_of, executed

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
MOST_LINES = 99
SOURCES = {path.stem: path for path in sorted((ROOT / "notebooks" / "sources").glob("*.py"))}
LABEL = "paper formula, not a guarantee"
MACHINE = re.compile(r"/(?:home|tmp|root|srv|work|usr|var|opt|Users|mnt)/|site-packages|0x[0-9a-f]{8,}")
ROUNDED = re.compile(r"(?:epsilon\([^{}]*\)|\.epsilon):[^{}]*[fg]\}")
MOST_BYTES = 400_000


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
    assert openings(text) != openings(text.replace("all four parties", "all five parties"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_says_what_to_look_at_and_takes_no_options(name: str) -> None:
    source = EXAMPLES[name].read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    assert re.search(r'^""".*^Look at: .*?^"""', source, re.MULTILINE | re.DOTALL)
    assert "argparse" not in source and "sys.argv" not in source


def test_what_the_example_of_a_federation_writes_is_in_order_without_starting_one(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES["federation_on_one_machine"]))
    example["write_organisations"](tmp_path)
    accepted, refused = (Job.parse(example["JOB"].format(epsilon=epsilon)) for epsilon in (1.0, 3.0))
    for party in accepted.parties:
        PartyFile.load(tmp_path / f"{party}.toml").table().check()
        policy = Policy.load(tmp_path / f"{party}.policy.toml")
        policy.check_job(accepted, party)
        with pytest.raises(PrivacyError, match="most accepted is 2"):
            policy.check_job(refused, party)


@pytest.mark.parametrize(
    ("page", "most", "held", "named"),
    [
        ("add-a-column.md", 2, "data/test_data_encoding.py models/test_onnx_export.py", "column"),
        ("add-a-loss.md", 3, "privacy/test_sensitivity_messages.py methods/test_glm.py", "log_cosh"),
        ("add-a-method.md", 4, "methods/test_methods.py", "contract[ridge]"),
    ],
)
def test_a_worked_example_runs_on_a_copy_with_its_few_changes_only(
    page: str, most: int, held: str, named: str, tmp_path: Path
) -> None:
    """And the tests that hold what is like it take it in as they stand."""
    changed = worked.files_to_touch(page)
    assert 1 <= len(changed) <= most
    worked.apply(page, tmp_path)
    tests = worked.run(tmp_path, *(f"tests/{name}" for name in held.split()))
    for done in (worked.run(tmp_path), tests):
        assert done.returncode == 0, done.stdout + done.stderr
    assert named in tests.stdout
    shutil.copy(ROOT / changed[0], tmp_path / changed[0])
    assert worked.run(tmp_path).returncode != 0


def kept(name: str) -> NotebookNode:
    result: NotebookNode = untyped(nbformat).read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    return result


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_that_is_kept_has_the_cells_of_its_source_and_ran_to_its_end(name: str) -> None:
    notebook, source = kept(name), SOURCES[name].read_text(encoding="utf-8")
    nbformat.validate(notebook)
    made = [(cell.cell_type, cell.source) for cell in cells_of(source)]
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == made
    cells = code_of(notebook)
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "display_data"}
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert cells[-1].outputs and sum(output.output_type == "display_data" for output in outputs) >= 3
    printed = [output for output in outputs if output.output_type == "stream"]
    assert {output.name for output in printed} == {"stdout"}
    assert LABEL in "".join(output.text for output in printed), "figures of a paper are called what they are"
    assert not ROUNDED.findall(source), "an ε that was computed is not printed rounded to nearest"


@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_that_is_kept_is_small_and_names_no_machine_and_no_moment(name: str) -> None:
    assert (ROOT / "notebooks" / f"{name}.ipynb").stat().st_size < MOST_BYTES
    notebook = kept(name)
    for cell in notebook.cells:
        assert cell.metadata == {}
        for output in cell.get("outputs", ()):
            if output.output_type == "display_data":
                output.data = {}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert not MACHINE.search(json.dumps(notebook, ensure_ascii=False))


def test_these_checks_would_notice_a_path_and_the_address_of_an_object() -> None:
    assert MACHINE.search("File /home/somebody/colonnade/x.py")
    assert MACHINE.search("<Figure at 0x7f00deadbeef>")
    assert not MACHINE.search("see ../docs/networks.md, δ = 1e-5 and/or 1/2")
    assert ROUNDED.search('f"{account(event, DELTA).epsilon:8.2f}"')


@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_imports_public_names_that_exist(name: str) -> None:
    for node in ast.walk(ast.parse(SOURCES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (module := str(node.module)).startswith("colonnade"):
            for found in [alias.name for alias in node.names]:
                assert not any(part.startswith("_") for part in (*module.split("."), found))
                assert hasattr(import_module(module), found) or import_module(f"{module}.{found}")


def test_links_of_notebooks_and_of_both_indices_resolve() -> None:
    pages = {
        ROOT / "notebooks" / f"{name}.ipynb": "\n".join(
            cell.source for cell in kept(name).cells if cell.cell_type == "markdown"
        )
        for name in SOURCES
    }
    for folder in ("notebooks", "examples"):
        pages[ROOT / folder / "README.md"] = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    links = [(page, link) for page, text in pages.items() for link in re.findall(r"\]\(([^)#\s]+)", text)]
    assert len(links) > 20
    assert [link for page, link in links if not (page.parent / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_runs_from_top_to_bottom(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLONNADE_DATA", "")
    assert all(cell.execution_count for cell in code_of(executed(SOURCES[name])))
