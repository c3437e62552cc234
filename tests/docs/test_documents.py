"""What the documents say is there is there, and what they say runs runs.

A fence marked `python` is run, in order, in one namespace per page; a fence marked `text output` after it is
what it prints. A fence marked `python` and a path is an excerpt of that file, `...` standing for lines left out.
A fence marked `toml` whose first line is a file's name in a comment is that file.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer

import colonnade.errors
from colonnade import Federation, Schema, Table
from colonnade.cli.app import app, run
from colonnade.errors import ColonnadeError
from colonnade.learn.jobs import Job
from colonnade.learn.party_files import PartyFile

ROOT = Path(__file__).parents[2]
FRONT = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = (*(ROOT / name for name in FRONT), *sorted((ROOT / "docs").rglob("*.md")))
CODE = sorted(
    path
    for folder in ("src", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if path.is_file()
)
FENCE = re.compile(r"^```(?P<kind>\w*) ?(?P<rest>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"^(?:docs|src|tests|benchmarks)/[\w./-]*\w(?:::\w+)?$")


@dataclass(frozen=True)
class Fence:
    kind: str
    rest: str
    text: str
    line: int


def fences(page: Path) -> list[Fence]:
    text = page.read_text(encoding="utf-8")
    return [
        Fence(found["kind"], found["rest"].strip(), found["text"], text[: found.start()].count("\n") + 2)
        for found in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fenced(kind: str, marked: bool, pages: tuple[Path, ...] = PAGES) -> list[Path]:
    """Pages with such fences, marked with something after the kind or not."""
    return [page for page in pages if any(f.kind == kind and bool(f.rest) == marked for f in fences(page))]


def small_federation() -> Federation:
    """What a page may call `federation` without making one."""
    rng = np.random.default_rng(3)
    spent, visits = rng.uniform(0, 10, 3000), rng.uniform(0, 10, 3000)
    declared = 'id = "n"\ncolumns.{} = {{kind = "numeric", low = 0, high = 10}}\n'
    label = 'label = {column = "stays", kind = "classes", classes = ["no", "yes"]}'
    stays = np.where(spent + visits > 10, "yes", "no")
    shop = Table.from_arrays(
        "shop", {"spent": spent, "stays": stays}, Schema.parse(declared.format("spent") + label)
    )
    club = Table.from_arrays("club", {"visits": visits}, Schema.parse(declared.format("visits")))
    return Federation([shop, club], budget=(8.0, 1e-5))


@pytest.mark.parametrize(
    "page", fenced("python", False, tuple(p for p in PAGES if p.parent in (ROOT, ROOT / "docs"))), ids=name_of
)
def test_every_python_snippet_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"federation": small_federation()}
    printed = ""
    for fence in fences(page):
        if fence.kind == "python" and not fence.rest:
            screen = io.StringIO()
            with contextlib.redirect_stdout(screen):
                exec(compile(fence.text, f"{name_of(page)}, line {fence.line}", "exec"), names)
            printed = screen.getvalue()
        elif (fence.kind, fence.rest) == ("text", "output"):
            assert printed == fence.text, f"{name_of(page)}, line {fence.line}"


@pytest.mark.parametrize("page", fenced("python", True), ids=name_of)
def test_every_excerpt_is_in_the_file_it_names(page):
    for fence in fences(page):
        if fence.kind == "python" and fence.rest:
            source = (ROOT / fence.rest).read_text(encoding="utf-8")
            for piece in re.split(r"^\.\.\.\n", fence.text, flags=re.MULTILINE):
                assert piece in source, f"{name_of(page)}, line {fence.line}: not in {fence.rest}\n{piece}"


def test_every_file_that_the_readme_shows_is_one_that_the_program_reads(tmp_path):
    shown = {}
    for fence in fences(ROOT / "README.md"):
        if fence.kind == "toml":
            first = fence.text.splitlines()[0]
            shown[first.removeprefix("# ")] = fence.text
            (tmp_path / first.removeprefix("# ")).write_text(fence.text, encoding="utf-8")
    assert set(shown) == {"job.toml", "bank.toml", "bank.schema.toml"}
    job = Job.load(tmp_path / "job.toml")
    party = PartyFile.load(tmp_path / "bank.toml")
    assert party.party == job.active
    assert len(party.open_ledger().budgets()) == 2
    assert Schema.load(party.schema).label is not None


def commands(page: Path) -> set[str]:
    """Commands in shell fences and in spans of code, without what follows a comment sign."""
    lines = [line for fence in fences(page) if fence.kind == "sh" for line in fence.text.splitlines()]
    lines += SPAN.findall(prose(page))
    stripped = (line.split(" #")[0].strip() for line in lines)
    return {line for line in stripped if re.match(r"(make|colonnade|\.venv/bin/\w+) [\w.-]", line)}


def problem_with(command: str) -> str:
    """Why a command cannot be run, or nothing."""
    program, *words = command.split()
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return "" if words[0] in targets else f"no target {words[0]}"
    if program == "colonnade":
        verbs = typer.main.get_command(app).commands
        if words[0].startswith("--"):
            return ""
        if words[0] not in verbs:
            return f"no verb {words[0]}"
        meant = [verbs[words[0]]]
        if len(words) > 1 and hasattr(meant[0], "commands"):
            # An ellipsis stands for any of them.
            inner = meant[0].commands
            meant = [inner[name] for name in inner if words[1] in (name, "…")]
        if not meant:
            return f"no {words[1]} in {words[0]}"
        known = {option for verb in meant for parameter in verb.params for option in parameter.opts}
        known |= {"--help", "-h"}
        return " ".join(word for word in words if word.startswith("-") and word not in known)
    paths = [word for word in words if word.split("/")[0] in ("tests", "benchmarks", "src")]
    return " ".join(path for path in paths if not (ROOT / path).exists())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_named_exists(page):
    assert {command: wrong for command in commands(page) if (wrong := problem_with(command))} == {}


def test_this_check_would_notice_a_command_that_does_not_exist():
    assert problem_with("make coffee")
    assert problem_with("colonnade dance")
    assert problem_with("colonnade train job.toml --faster")
    assert problem_with("colonnade privacy poker")
    assert problem_with("colonnade privacy moments --faster")
    assert problem_with(".venv/bin/python benchmarks/nothing.py --json")


def test_the_readme_lists_every_exit_code():
    families = [thing for thing in vars(colonnade.errors).values() if isinstance(thing, type)]
    codes = {kind.exit_code for kind in families if issubclass(kind, ColonnadeError)} - {
        ColonnadeError.exit_code
    }
    (sentence,) = re.findall(r"Exit codes [^.]*\.", prose(ROOT / "README.md"))
    assert codes <= {int(number) for number in re.findall(r"\d+", sentence)}


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in LINK.findall(prose(page)):
        if link.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_or_a_heading_of_this_project(page):
    assert dead_links(page) == []


def missing(mentioned: str) -> bool:
    """Whether a file, or the test named after ``::`` in it, is not there. `*` stands for any name."""
    path, _, test = mentioned.partition("::")
    if not (ROOT / path).exists():
        return True
    return bool(test) and f"def {test}(" not in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_and_test_that_a_page_names_exists(page):
    assert [span for span in SPAN.findall(prose(page)) if FILE.match(span) and missing(span)] == []


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_every_document_that_code_cites_exists(folder):
    cited = {
        (name_of(path), document)
        for path in CODE
        if path.is_relative_to(ROOT / folder) and path != Path(__file__)
        for document in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert sorted(entry for entry in cited if not (ROOT / entry[1]).exists()) == []


def test_these_checks_would_notice_what_is_not_there(tmp_path, monkeypatch):
    assert missing("docs/proofs/of-everything.md")
    assert missing("tests/docs/test_documents.py::test_that_nobody_wrote")
    monkeypatch.setattr("test_documents.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[there](#here) [gone](gone.md) [out](../out.md) [no](#nowhere)\n", encoding="utf-8"
    )
    assert dead_links(page) == ["gone.md", "../out.md", "#nowhere"]


def test_decisions_are_numbered_without_gaps_and_titled_by_their_number():
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for number, record in enumerate(records, start=1):
        assert record.read_text(encoding="utf-8").startswith(f"# {number}. "), record.name


def test_nothing_names_a_folder_of_somebodys_machine():
    """A path that exists on one machine only is of no use to the next reader."""
    machine = re.compile(
        r"(?<![\w.}/])/(?:home|root|Users|mnt|srv|opt|work|workspace|data)/\w|file://|localhost:\d"
    )
    assert machine.search("see /home/ann/notes")
    texts = [*PAGES, *CODE, ROOT / "Makefile", ROOT / "pyproject.toml"]
    found = [
        name_of(path) for path in texts if path != Path(__file__) and machine.search(path.read_text("utf-8"))
    ]
    assert found == []


def test_pages_hold_no_open_ends():
    open_end = re.compile(r"\b(TODO|FIXME|XXX|TBD)\b|#\d{1,4}\b|\blorem\b", re.IGNORECASE)
    assert [name_of(page) for page in PAGES if open_end.search(prose(page))] == []


def test_the_demonstration_says_what_the_readme_says_it_does(tmp_path, monkeypatch, capsys):
    (shown,) = (
        fence.text for fence in fences(ROOT / "README.md") if (fence.kind, fence.rest) == ("text", "demo")
    )
    monkeypatch.chdir(tmp_path)
    assert run(["demo"]) == 0
    said = capsys.readouterr().out
    # The run's name, the private model's accuracy and the last digit of the bytes differ from run to run.
    drawn = re.compile(r"run [0-9a-f]{12}|private model, .*|^Sent: .*|^\.\.\.$", re.MULTILINE)
    lines = [line for line in drawn.sub("", shown).splitlines() if line.strip()]
    assert len(lines) > 8
    assert [line for line in lines if line not in drawn.sub("", said).splitlines()] == []
