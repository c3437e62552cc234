"""The notebooks that are kept are those that their sources make, ran to the end, and name no machine."""

import ast
import json
import re
from importlib import import_module

import nbformat
import pytest
from fences import ROOT
from nbformat.notebooknode import NotebookNode
from typed import untyped

SOURCES = {path.stem: path for path in sorted((ROOT / "notebooks" / "sources").glob("*.py"))}
LABEL = "paper formula, not a guarantee"
MACHINE = re.compile(r"/(?:home|tmp|root|srv|work|usr|var|opt|Users|mnt)/|site-packages|0x[0-9a-f]{8,}")
ROUNDED = re.compile(r"(?:epsilon\([^{}]*\)|\.epsilon):[^{}]*[fg]\}")
MOST_BYTES = 400_000


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def kept(name: str) -> NotebookNode:
    result: NotebookNode = untyped(nbformat).read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    return result


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_notebook_that_is_kept_has_the_cells_of_its_source_and_ran_to_its_end(name: str) -> None:
    from notebooks.making import cells_of

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
    from notebooks.making import executed

    monkeypatch.setenv("COLONNADE_DATA", "")
    assert all(cell.execution_count for cell in code_of(executed(SOURCES[name])))
