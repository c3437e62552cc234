"""Everything a person can type wrongly in job and schema files, tried systematically.

A rich set of valid files is taken apart line by line: every key is misspelt, every word of a choice, every value is
made something else. Each time the message has to name file, line, field and value, and the nearest choice where there
is one; nothing is run, written or charged. Party and policy files are read by the same forms: tests/corpus has those,
and what is missing, twice or no TOML.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from cli_project import Project, write_project

from colonnade.cli.screen import complain
from colonnade.data.schema import Schema
from colonnade.errors import ColonnadeError
from colonnade.federation.job import Job
from colonnade.federation.party_file import federation_of, party_files

JOB = """name = "Default risk"
task = "classification"
method = "functional"
parties = ["bank", "insurer"]
active = "bank"
server = "server"
threshold = 1
epsilon = 1.0
delta = 1e-5
accepted_delta = 1e-5
alignment = "auto"
timeout = 600.0

[options]
domain = "ball"
noise = "skellam"
"""
SCHEMA = """id = "customer"

[columns.age]
kind = "numeric"
low = 18
high = 90
transform = "none"
missing = {value = 40}

[columns.since]
kind = "date"
low = 2000-01-01
high = 2020-12-31

[columns.income]
kind = "bins"
edges = [0, 10, 20]
missing = "category"

[columns.smoker]
kind = "binary"
values = ["no", "yes"]
case = "lower"
unicode = "exact"
trim = true

[columns.job]
kind = "categorical"
categories = ["clerk", "farmer", "nurse"]
other = "nurse"

[label]
column = "risk"
kind = "classes"
classes = ["low", "high"]

[map]
kind = "random-relu"
features = 8
seed = 7
origin = "middle"
columns = ["age", "income"]
"""
FILES = {"job.toml": JOB, "bank.schema.toml": SCHEMA}
CHOICES = (
    "classification functional auto ball skellam numeric date bins binary categorical classes lower exact none "
    "category random-relu middle"
)
# Numbers that may be any finite number of their type as far as the file alone says.
ANY_NUMBER = {"low", "high", "missing", "edges", "seed"}
# Other types that a key takes too.
RIGHT = {("id", "{a = 1}"), ("missing", "{a = 1}"), ("other", "17")}
NUMBER = re.compile(r"(?<![\w\"'-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w\"-])")
ASSIGNMENT = re.compile(r'^("[^"]*"|[\w-]+) = (.*)$')
HEADER = re.compile(r"^\[\[?([\w.]+)\]\]?$")


class Mutation(NamedTuple):
    """A line of a file that is another, and what has to be said of it."""

    file: str
    number: int
    line: str
    pieces: tuple[str, ...]


def lines(file: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(FILES[file].splitlines(), start=1):
        if found := ASSIGNMENT.match(line):
            yield number, found[1], found[2]


def misspelt(word: str) -> str:
    """Two letters changed places, or one more where that makes no difference."""
    middle = len(word) // 2
    swapped = word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    return swapped if len(word) > 3 and swapped != word else word + word[-1]


def misspelt_keys() -> Iterator[Mutation]:
    for file in FILES:
        for number, key, value in lines(file):
            wrong = misspelt(key)
            pieces = (wrong, "unknown key", f"Did you mean {key!r}?")
            yield Mutation(file, number, f"{wrong} = {value}", pieces)
        for number, line in enumerate(FILES[file].splitlines(), start=1):
            if header := HEADER.match(line):
                table = header[1].split(".")[0]
                wrong = misspelt(table)
                yield Mutation(
                    file, number, line.replace(table, wrong, 1), (wrong, f"Did you mean {table!r}?")
                )


def misspelt_choices() -> Iterator[Mutation]:
    for file in FILES:
        for number, key, value in lines(file):
            word = value.strip('"[]').split('", "')[0]
            if f'"{word}"' in value and word in CHOICES.split() and key != "name":
                wrong = misspelt(word)
                changed = value.replace(f'"{word}"', f'"{wrong}"', 1)
                yield Mutation(file, number, f"{key} = {changed}", (repr(wrong), repr(word)))


def wrong_numbers() -> Iterator[Mutation]:
    for file in FILES:
        for number, key, value in lines(file):
            found = NUMBER.search(value)
            if found is None or value.startswith('"') or re.match(r"\d{4}-", value):
                continue
            tried = ['"ten"', "[1]", "true", "nan", "inf", "-inf"]
            if key not in ANY_NUMBER:
                tried += ["-3", "0", "1e+300" if "." in found[0] or "e" in found[0] else "1" + "0" * 30]
                if key in ("epsilon", "timeout"):
                    tried.remove("1e+300")  # as much as one likes
            for other in tried:
                shown = other.strip('"')
                pieces = (key, shown[:6].rstrip("0") if len(shown) > 6 else shown)
                yield Mutation(file, number, f"{key} = {value.replace(found[0], other, 1)}", pieces)


def wrong_types() -> Iterator[Mutation]:
    """Texts, lists and truth values made numbers, and the other way round."""
    for file in FILES:
        for number, key, value in lines(file):
            if value.startswith('"'):
                others = ["17", "[]", "{a = 1}"]
            elif value.startswith("["):
                others = ["17", '"word"']
            else:
                others = ["1", '"yes"'] if value in ("true", "false") else []
            for other in others:
                if (key, other) not in RIGHT:
                    yield Mutation(file, number, f"{key} = {other}", (key,))


MAKERS = (misspelt_keys, misspelt_choices, wrong_numbers, wrong_types)
MUTATIONS = [mutation for make in MAKERS for mutation in make()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = write_project(tmp_path_factory.mktemp("mutations"), rows=40)
    head, *rows = project.path("bank.csv").read_text().splitlines()
    rows = [
        f"{','.join(row.split(',')[:3])},2010-05-01,{number % 20},yes,{row.split(',')[3]}"
        for number, row in enumerate(rows)
    ]
    head = "customer,age,job,since,income,smoker,risk"
    project.path("bank.csv").write_text("\n".join([head, *rows]) + "\n")
    project.path("insurer.schema.toml").write_text(
        'id = "customer"\n[columns.claims]\nkind = "numeric"\nlow = 0\nhigh = 9\n'
    )
    return project


def write(project: Project, mutation: Mutation) -> None:
    for ledger in project.folder.glob("*.ledger*"):
        ledger.unlink()
    for name, text in FILES.items():
        held = text.splitlines()
        if name == mutation.file:
            held[mutation.number - 1] = mutation.line
        project.path(name).write_text("\n".join(held) + "\n")


def prepared(project: Project) -> int:
    """All that is read before a run; as the command line would say it, and much faster."""
    try:
        job = Job.load(project.path("job.toml"))
        federation_of(job, party_files(job))
    except ColonnadeError as error:
        complain(str(error), error.number)
        return error.exit_code
    return 0


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_what_is_typed_wrongly_is_named_with_file_line_field_and_nearest_choice(
    folder: Project, capsys: pytest.CaptureFixture[str], make: Callable[[], Iterator[Mutation]], file: str
) -> None:
    for mutation in make():
        if mutation.file == file:
            write(folder, mutation)
            before = folder.files()
            code = prepared(folder)
            said = capsys.readouterr().err
            assert code in (3, 4, 5, 6), (mutation.line, said)
            assert said.startswith(f"error E{code}"), (mutation.line, said)
            assert f"{file}, line {mutation.number}" in said, (mutation.line, said)
            assert all(piece in said for piece in mutation.pieces), (mutation.pieces, said)
            assert "Traceback" not in said
            assert folder.files() == before, "nothing is written"
            assert folder.charges("bank") == folder.charges("insurer") == 0


@pytest.mark.parametrize("mark", ["bom", "crlf", "both"])
def test_a_byte_order_mark_and_the_line_ends_of_other_systems_are_no_mistake(
    folder: Project, mark: str
) -> None:
    for name, text in FILES.items():
        changed = text.replace("\n", "\r\n") if mark != "bom" else text
        folder.path(name).write_bytes((b"\xef\xbb\xbf" if mark != "crlf" else b"") + changed.encode())
    assert Job.load(folder.path("job.toml")).method == "functional"
    assert Schema.load(folder.path("bank.schema.toml")).map is not None


def test_the_mutations_are_many_and_the_files_they_start_from_are_valid(folder: Project) -> None:
    assert len(MUTATIONS) > 150
    test_a_byte_order_mark_and_the_line_ends_of_other_systems_are_no_mistake(folder, "none")
