"""What the documents say is there is there, and what they say runs runs.

How a page is written so that its snippets and commands are run and their output compared: tests/docs/fences.py.
"""

import json
import re
import tomllib
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import typer
from cli_project import printed_by
from encrypted_runs import WIDER
from fences import ROOT, fences, perform, prose, says, script
from stages import STAGES
from typed import untyped

import colonnade.errors
from colonnade import Federation, Schema, Table
from colonnade.cli.app import app, run
from colonnade.errors import ColonnadeError
from colonnade.methods.encrypted.plan import EncryptedOptions

FRONT = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = (*(ROOT / name for name in FRONT), *sorted((ROOT / "docs").rglob("*.md")))
CODE = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"^(?:docs|src|tests|benchmarks)/[\w./-]*\w(?:::\w+)?$")
DOTTED = re.compile(r"^colonnade(?:\.\w+){2,}$")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def small_federation() -> Federation:
    rng = np.random.default_rng(3)
    spent, visits = rng.uniform(0, 10, 3000), rng.uniform(0, 10, 3000)
    declared = 'id = "n"\ncolumns.{} = {{kind = "numeric", low = 0, high = 10}}\n'
    label = 'label = {column = "stays", kind = "classes", classes = ["no", "yes"]}'
    arrays = {"spent": spent, "stays": np.where(spent + visits > 10, "yes", "no")}
    shop = Table.from_arrays("shop", arrays, Schema.parse(declared.format("spent") + label))
    club = Table.from_arrays("club", {"visits": visits}, Schema.parse(declared.format("visits")))
    return Federation([shop, club], budget=(8.0, 1e-5))


COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
FENCES = [(page, fence) for page in PAGES for fence in fences(page)]
PERFORMED = dict.fromkeys(page for page, f in FENCES if f.kind in ("python", "sh") and f.file is None)


def not_run(command: str) -> bool:
    return any(re.match(pattern, command) for pattern in COMMANDS["not_run"])


def follow(page: Path) -> tuple[int, int]:
    """Perform a page in the current folder; how many snippets and commands ran, how many outputs were compared."""
    names: dict[str, object] = {"federation": small_federation()}
    printed, ran, compared = "", 0, 0
    for fence in fences(page):
        where = f"{name_of(page)}, line {fence.line}"
        if fence.file is not None:
            Path(fence.file).write_text(fence.text, encoding="utf-8")
        elif fence.kind == "python" and not fence.rest:
            code = compile(fence.text, where, "exec")
            printed, ran = printed_by(partial(exec, code, names)).out, ran + 1
        elif fence.kind == "sh":
            lines = [line for line in fence.commands if not not_run(line)]
            said = [perform(COMMANDS["run_as"].get(line, line)) for line in lines]
            ends = [one.code for one in said]
            wanted = int(fence.rest.removeprefix("exits ")) if fence.rest else 0
            assert ends[-1:] in ([], [wanted]) and not any(ends[:-1]), f"{where}: {[one.err for one in said]}"
            printed = "".join(one.out + (one.err if one.code else "") for one in said)
            ran += len(said)
        elif (fence.kind, fence.rest) == ("text", "output"):
            assert says(printed, fence.text), f"{where} shows\n{fence.text}\nbut this was printed\n{printed}"
            compared += 1
    return ran, compared


@pytest.mark.parametrize("page", PERFORMED, ids=name_of)
def test_every_snippet_and_command_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    # Keys that protect nothing take no time.
    monkeypatch.setattr(EncryptedOptions, "keys", WIDER)
    STAGES.get(name_of(page), lambda: None)()
    follow(page)


def test_this_performance_would_notice_another_output_and_a_command_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("test_documents.ROOT", tmp_path)
    page = tmp_path / "page.md"
    right = "```python\nprint(1)\n```\n```text output\n1\n```\n```sh\ncolonnade --version # says it\n```\n"
    page.write_text(right)
    assert follow(page) == (2, 1)
    for wrong in (right.replace("output\n1", "output\n2"), right.replace("--version", "dance")):
        page.write_text(wrong)
        with pytest.raises(AssertionError):
            follow(page)
    page.write_text("```sh exits 2\ncolonnade dance\n```\n```text output\n…dance…\n…\n```\n")
    assert follow(page) == (1, 1)
    alike = [("a\nb\nc\n", "a\n…\nc\n"), ("a\nc\n", "a\n…\nc\n"), ("run 12, on\n", "run …, on\n")]
    assert all(says(*pair) for pair in alike)
    assert not any(says(*pair) for pair in [("a\nb\n", "a\nc\n"), ("a\nb\nc\n", "a\n"), ("b\na\n", "a\n…\n")])


def test_the_tutorial_shows_the_whole_way() -> None:
    pages = [f for page, f in FENCES if name_of(page) == "docs/tutorial.md" and f.kind == "sh"]
    lines = [line for fence in pages for line in fence.commands]
    verbs = {line.split()[1] for line in lines if line.startswith("colonnade ")}
    assert {"new", "schema", "plan", "align", "train", "ledger", "report", "predict"} <= verbs


def test_the_exports_of_the_tutorial_are_as_messy_as_it_says(tmp_path: Path) -> None:
    script(ROOT / "examples/messy/make_tables.py", str(tmp_path))
    bank, clinic = (tmp_path / "bank.csv").read_bytes(), (tmp_path / "clinic.csv").read_text()
    assert bank.startswith(b"\xef\xbb\xbfCustomer;Age;") and b";199;" in bank and b";;" in bank
    assert b"Office" in bank and b"CARE" in bank
    ids = [line.split(",")[0] for line in clinic.splitlines()[1:]]
    assert all(name == f" {name.strip().lower()} " for name in ids) and ids != sorted(ids)


def test_no_command_hides_in_a_fence_that_is_not_run() -> None:
    looks = re.compile(r"^(?:\$ )?(?:colonnade|make|python3?|pip|\.venv/bin/\w+) [\w./-]", re.MULTILINE)
    unmarked = [(page, f) for page, f in FENCES if f.kind in ("", "text", "bash", "shell")]
    hidden = [(name_of(page), f.line) for page, f in unmarked if looks.search(f.text)]
    assert hidden == [], "commands belong into a fence marked sh"
    shown: Counter[str] = Counter()
    for page, fence in FENCES:
        shown[name_of(page)] += len(fence.commands) if fence.kind == "console" else 0
    assert +shown == COMMANDS["shown"], "a fence marked console needs a reason in commands.toml"


def test_every_fence_says_what_it_is() -> None:
    kinds = {"python", "sh", "console", "text", "toml", "csv", "json", "sql", "yaml", "diff"}
    assert [(name_of(page), fence.line) for page, fence in FENCES if fence.kind not in kinds] == []
    for _, fence in FENCES:
        if fence.kind == "toml":
            tomllib.loads(fence.text)


def test_the_lists_of_what_is_not_run_name_what_pages_show() -> None:
    shown = [line for _, fence in FENCES if fence.kind == "sh" for line in fence.commands]
    unused = [one for one in COMMANDS["not_run"] if not any(re.match(one, line) for line in shown)]
    assert unused == [] and [command for command in COMMANDS["run_as"] if command not in shown] == []


def test_every_excerpt_is_in_the_file_it_names() -> None:
    marked = [(page, f) for page, f in FENCES if f.kind == "python" and f.rest]
    assert marked
    for page, fence in marked:
        source = (ROOT / fence.rest).read_text(encoding="utf-8")
        for piece in re.split(r"^\.\.\.\n", fence.text, flags=re.MULTILINE):
            assert piece in source, f"{name_of(page)}, line {fence.line}: not in {fence.rest}\n{piece}"


def commands(page: Path) -> set[str]:
    lines = [line for fence in fences(page) if fence.kind == "sh" for line in fence.text.splitlines()]
    lines += SPAN.findall(prose(page))
    stripped = (line.split(" #")[0].strip() for line in lines)
    return {line for line in stripped if re.match(r"(make|colonnade|\.venv/bin/\w+) [\w.-]", line)}


def problem_with(command: str) -> str:
    program, *words = command.split()
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return "" if words[0] in targets else f"no target {words[0]}"
    if program == "colonnade":
        verbs = untyped(typer.main.get_command(app)).commands
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


def test_every_command_named_exists() -> None:
    for page in PAGES:
        assert {command: wrong for command in commands(page) if (wrong := problem_with(command))} == {}, page
    for wrong in ("dance", "train job.toml --faster", "privacy poker", "privacy moments --faster"):
        assert problem_with(f"colonnade {wrong}")
    assert problem_with("make coffee") and problem_with(".venv/bin/python benchmarks/nothing.py --json")


def test_the_page_of_errors_lists_every_exit_code() -> None:
    families = [thing for thing in vars(colonnade.errors).values() if isinstance(thing, type)]
    codes = {kind.exit_code for kind in families if issubclass(kind, ColonnadeError)}
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| E\d[^|]*\|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    assert codes | {2, 130} == {int(number) for cell in listed for number in re.findall(r"\d+", cell)}


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


def test_every_link_leads_to_a_file_or_a_heading_of_this_project() -> None:
    assert {name_of(page): dead for page in PAGES if (dead := dead_links(page))} == {}


def missing(mentioned: str) -> bool:
    """Whether a file, or the test named after ``::`` in it, is not there. `*` stands for any name."""
    path, _, test = mentioned.partition("::")
    if not (ROOT / path).exists():
        return True
    return bool(test) and f"def {test}(" not in (ROOT / path).read_text(encoding="utf-8")


def absent(dotted: str) -> bool:
    """Whether no module has this name, or none with its beginning has what is left of it."""
    module, left = Path(*dotted.split(".")), list[str]()
    while not (file := ROOT / "src" / module.with_suffix(".py")).exists():
        if (file := ROOT / "src" / module / "__init__.py").exists():
            break
        module, left = module.parent, [*left, module.name]
    return any(not re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for name in left)


def test_every_file_test_and_module_that_a_page_names_exists() -> None:
    spans = [(name_of(page), span) for page in PAGES for span in SPAN.findall(prose(page))]
    assert [entry for entry in spans if FILE.match(entry[1]) and missing(entry[1])] == []
    # The changelog names what is gone.
    dotted = [entry for entry in spans if DOTTED.match(entry[1]) and entry[0] != "CHANGELOG.md"]
    assert len(dotted) > 40 and [entry for entry in dotted if absent(entry[1])] == []


def test_every_document_that_code_cites_exists() -> None:
    cited = {
        (name_of(path), document)
        for path in CODE
        if path != Path(__file__)
        for document in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert sorted(entry for entry in cited if not (ROOT / entry[1]).exists()) == []


def test_these_checks_would_notice_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("docs/proofs/of-everything.md")
    assert absent("colonnade.crypto.blinded_sets") and not absent("colonnade.crypto.curve.BlindedSet")
    assert missing("tests/docs/test_documents.py::test_that_nobody_wrote")
    monkeypatch.setattr("test_documents.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Here\n[there](#here) [gone](gone.md) [out](../out.md) [no](#nowhere)\n")
    assert dead_links(page) == ["gone.md", "../out.md", "#nowhere"]


def test_decisions_are_numbered_without_gaps_and_titled_by_their_number() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for number, record in enumerate(records, start=1):
        assert record.read_text(encoding="utf-8").startswith(f"# {number}. "), record.name


def test_nothing_names_a_folder_of_somebodys_machine() -> None:
    machine = re.compile(
        r"(?<![\w.}/])/(?:home|root|Users|mnt|srv|opt(?!/colonnade)|work|workspace|data)/\w|file://|localhost:\d"
    )
    assert machine.search("see /home/ann/notes")
    # Tests of documents name such paths in order to show that they would be noticed.
    code = [path for path in CODE if path.parent != Path(__file__).parent]
    texts = [*PAGES, *code, ROOT / "Makefile", ROOT / "pyproject.toml"]
    assert [name_of(path) for path in texts if machine.search(path.read_text("utf-8"))] == []


def test_pages_hold_no_open_ends() -> None:
    open_end = re.compile(r"\b(TODO|FIXME|XXX|TBD)\b|#\d{1,4}\b|\blorem\b", re.IGNORECASE)
    assert [name_of(page) for page in PAGES if open_end.search(prose(page))] == []


def test_the_demonstration_says_what_the_readme_says_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [fence.text for _, fence in FENCES if (fence.kind, fence.rest) == ("text", "demo")]
    monkeypatch.chdir(tmp_path)
    assert run(["demo"]) == 0
    said = capsys.readouterr().out
    # The run's name, the private model's accuracy and the last digit of the bytes differ from run to run.
    drawn = re.compile(r"run [0-9a-f]{12}|private model, .*|^Sent: .*|^\.\.\.$", re.MULTILINE)
    lines = [line for line in drawn.sub("", shown).splitlines() if line.strip()]
    assert len(lines) > 8
    assert [line for line in lines if line not in drawn.sub("", said).splitlines()] == []
    assert "Report: demo-run/income/run/report.html\nReport: demo-run/run/report.html" in said
    assert Path("demo-run/run/report.html").is_file() and Path("demo-run/income/run/report.html").is_file()
    # Many people: ε = 1 costs next to nothing. The same margin as between two draws of the people held out.
    many = json.loads(Path("demo-run/income/run/facts.json").read_text())
    private, central, commonest = many["measured"].values()
    assert many["rows"] > 26_000 and abs(private - central) < 0.02 and central > commonest + 0.08
    new = ["--rows", "demo-run/income/new-people.csv", "--id", "person"]
    assert run(["predict", "demo-run/income/run", *new]) == 0
