"""Every error has a number, a section that ships with the package, and a way to it."""

import ast
import re
from pathlib import Path

import pytest
from cli_project import Cli, Project

import colonnade.errors
from colonnade.cli import explain
from colonnade.errors import ColonnadeError, explanations

ROOT = Path(colonnade.__file__).parent
REPOSITORY = Path(__file__).parents[2]
SECTIONS = explanations()
# Numbers of what is no exception of ours: the command line itself, and Ctrl-C.
OTHERS = {explain.INTERRUPTED: ("KeyboardInterrupt", 130), explain.USAGE: ("UsageError", 2)}


def classes() -> list[type[ColonnadeError]]:
    known = (thing for thing in vars(colonnade.errors).values() if isinstance(thing, type))
    return [kind for kind in known if issubclass(kind, ColonnadeError)]


NAMES = {kind.__name__ for kind in classes()}


def name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def heirs(tree: ast.AST) -> list[str]:
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(name_of(parent) in NAMES for parent in node.bases)
    ]


def raised(tree: ast.AST) -> list[str]:
    calls = (
        node.exc.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    )
    return [name_of(call) for call in calls]


def test_every_class_of_error_has_a_number_of_its_own_and_a_section() -> None:
    found = classes()
    assert len(found) > 40
    numbers = [vars(kind).get("number") for kind in found]
    assert None not in numbers, [kind for kind in found if "number" not in vars(kind)]
    assert len(set(numbers)) == len(numbers), "a number belongs to one class"
    assert set(SECTIONS) == {*numbers, *OTHERS}


def test_a_number_begins_with_the_exit_code() -> None:
    for kind in classes():
        assert re.fullmatch(rf"E{kind.exit_code}\d\d", kind.number), kind


def test_a_family_is_the_name_of_a_class_above() -> None:
    for kind in classes():
        assert kind.family in {above.__name__ for above in kind.__mro__}, kind


def test_every_section_says_what_it_means_what_causes_it_how_it_looks_and_what_to_do() -> None:
    named = {kind.number: (kind.__name__, kind.exit_code) for kind in classes()} | OTHERS
    for number, section in SECTIONS.items():
        name, code = named[number]
        first, meaning, causes, *rest = section.text.split("\n\n")
        assert first == f"**{section.title}** Class `{name}`, exit code {code}.", number
        assert section.title.endswith(".") and len(meaning) > 40, number
        assert causes.startswith("Usual causes: "), number
        assert rest[0].startswith(f"```text\nerror {number}: ") and rest[-1].startswith("What to do: "), (
            number
        )
        assert len(rest) == 2, number


def test_numbers_stand_in_order_and_the_page_that_explanations_name_is_there() -> None:
    assert list(SECTIONS) == sorted(SECTIONS)
    assert (REPOSITORY / explain.ADDRESS).is_file()


def test_errors_stand_in_the_tree_and_nothing_raises_its_root() -> None:
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert path.name == "errors.py" or heirs(tree) == [], (
            f"{path}: so that each has a number and a section"
        )
        assert "ColonnadeError" not in raised(tree), path


@pytest.mark.parametrize("requested", ["E313", "e313", "313"])
def test_explain_prints_the_section(cli: Cli, requested: str) -> None:
    out = cli("explain", requested)
    assert out.startswith("E313\nA declared column is not in the data.") and "What to do:" in out
    assert "**" not in out and "```" not in out
    found = cli.facts("explain", requested)
    assert found["number"] == "E313" and found["page"] == "docs/errors.md#e313"


def test_explain_lists_all_numbers_and_refuses_others(cli: Cli) -> None:
    assert cli("explain").count("\n") == len(SECTIONS)
    assert len(cli.facts("explain")["errors"]) == len(SECTIONS)
    assert "E300" in cli("explain E999", code=3)


def test_a_complaint_leads_to_its_section_in_text_and_in_json(project: Project, cli: Cli) -> None:
    project.edit("bank.csv", "age", "agee")
    first, second = cli("train job.toml", code=3).splitlines()
    assert first.startswith("error E313: party 'bank'") and second == "`colonnade explain E313` says more."
    error = cli.facts("train job.toml", code=3)["error"]
    assert (error["number"], error["page"]) == ("E313", "docs/errors.md#e313")
    assert cli("trian", code=2).startswith("error E200: ")


def example(number: str) -> str:
    found = re.search(r"```text\n(.*)\n```", SECTIONS[number].text)
    assert found is not None
    return found[1]


PROVOKED: dict[str, tuple[str, str, str]] = {
    "E312": ("bank.csv", "\nC2,", "\nC2,30\nC2,"),
    "E313": ("bank.csv", "age", "agee"),
    "E314": ("bank.csv", "\nC2,", "\nC1,"),
    "E352": ("job.toml", "parties = [", "parties = "),
    "E353": ("job.toml", "epsilon", "epsilom"),
    "E354": ("job.toml", "epsilon = 1.0\n", ""),
    "E355": ("job.toml", "epsilon = 1.0", 'epsilon = "1"'),
    "E356": ("job.toml", '"classification"', '"clasification"'),
    "E357": ("job.toml", "epsilon = 1.0", "epsilon = -1.5"),
    "E331": ("bank.schema.toml", "low = 18\nhigh = 90", "low = 90\nhigh = 18"),
    "E341": ("bank.toml", 'party = "bank"', 'party = "shop"'),
    "E402": ("job.toml", "delta = 1e-5", "delta = 0.1"),
    "E404": ("job.toml", 'active = "bank"', 'active = "insurer"'),
    "E405": ("job.toml", "delta = 1e-5", 'computing_parties = ["bank", "insurer"]'),
    "E501": ("insurer.toml", "epsilon = 4.0", "epsilon = 0.5"),
}


@pytest.mark.parametrize("number", PROVOKED)
def test_what_a_section_shows_is_what_a_person_sees(project: Project, cli: Cli, number: str) -> None:
    project.edit(*PROVOKED[number])
    assert cli("train job.toml", code=int(number[1])).splitlines()[0] == example(number)
