"""How the house is built and how light it is: what is counted in its source, and what an installation takes.

Prints one JSON object on its last line:

* ``source_lines``: lines of Python under src/colonnade, blank lines and comments included, with
  ``lines_moved_out_of_src`` of what left it for tests and benchmarks; ``test_lines``: the same of tests;
* ``modules``: files of the source other than ``__init__.py``, of ``median_module_lines``;
* ``doctest_lines``: lines of examples in docstrings, with what they print;
* ``markdown_words``: of every .md file that is kept, and ``readme_words``;
* ``class_names_twice``: names that classes of more than one module have;
* ``kind_checks_outside_data``: places outside ``data`` that ask which kind of column, label or map something is:
  isinstance, match, ``type() is``, registrations by type, comparisons with the name of a kind;
* ``old_words``: names under src with a word in them that the project gave up (ARCHITECTURE.md);
* ``cycles``: groups of modules that import each other in a circle, the strongly connected ones of more than one module.
  Imports in functions and under TYPE_CHECKING count like any other. Not counted: an import in a function of a module
  that itself imports a package of an extra, and what Python does by itself, the packages around a module;
* ``tables_naming_methods``: dicts, tuples, lists, sets and ``match`` statements that name three or more methods, by
  their names in quotes or by the modules they are made in (``method_x.METHOD``), and functions that are registered
  for the plans of three or more;
* ``files_to_touch_for_a_method``, ``…_column``, ``…_loss``: files that exist and that the worked examples of
  docs/contributing change;
* ``reads_of_a_file``: how often ``colonnade train`` reads a party's file at most, CSV, packed CSV or Parquet: each
  time Python opens it and each statement of the engine that names it;
* ``core_install_mb``: a fresh environment with the project and no extra: files of its packages, without pip, setuptools
  and byte code, in megabytes of 10⁶ bytes;
* ``import_cpu_s``, ``help_cpu_s``: processor time of ``import colonnade`` and of ``colonnade --help`` there, user and
  system, the least of several starts after a first one.

``--no-install`` measures the last two in this environment, and no size. ``--since COMMIT`` prints no JSON but a table:
lines by room at that commit and here.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import io
import itertools
import json
import keyword
import os
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
import venv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "pkg_resources")
STARTS = 5
# What left the library and is still read: loops and channels that only tests and benchmarks use.
MOVED = (
    *(f"tests/oracles/{name}.py" for name in ("plain_check_loops", "table_audit")),
    "benchmarks/loopback.py",
)
OLD_WORDS = frozenset(
    re.findall(
        r"\w+",
        "asked told beside besides deeds doorkeeper attendant turnstile roll journey whom across longest reach worth "
        "noted keeper keepers turned taken coins house houses invented judge judged judges judging judgement "
        "wave waves turning made wanted",
    )
)
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
# A field, an entry of a literal, or an argument by its name.
NAMES_ONE_THING = re.compile(r"· : [^=]*(?:= ·)?|· : [^=]*,|· = · (?:\. · )*,")


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "colonnade").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def extra_packages() -> set[str]:
    """The packages of extras, as they are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = (
        one for extra, names in project["optional-dependencies"].items() if extra != "dev" for one in names
    )
    return {re.split(r"[\[<>=;, ]", one)[0].replace("-", "_") for one in listed}


def imports(tree: ast.AST, known: set[str], *, deep: bool = False) -> Iterator[tuple[str, bool]]:
    """The modules that a tree imports, and whether it does so in a function."""
    for node in ast.iter_child_nodes(tree):
        inside = deep or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in known else node.module), inside
        yield from imports(node, known, deep=inside)


def graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Who imports whom."""
    known, extras = set(trees), extra_packages()
    listed = {name: list(imports(tree, known)) for name, tree in trees.items()}
    heavy = {
        name
        for name, found in listed.items()
        if any(not inside and other.split(".")[0] in extras for other, inside in found)
    }
    return {
        name: {other for other, inside in found if other in known and not (inside and other in heavy)}
        - {name}
        for name, found in listed.items()
    }


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected groups of more than one module, the largest first (Tarjan, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in edges:
        if start in order:
            continue
        order[start] = low[start] = len(order)
        stack.append(start)
        work = [(start, iter(sorted(edges[start])))]
        while work:
            name, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    group = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    if len(group) > 1:
                        found.append(sorted(group))
            elif other not in order:
                order[other] = low[other] = len(order)
                stack.append(other)
                work.append((other, iter(sorted(edges[other]))))
            elif other in stack:
                low[name] = min(low[name], order[other])
    return sorted(found, key=len, reverse=True)


def method_names(trees: Iterable[ast.AST]) -> set[str]:
    """The names that methods give themselves in `Method(…)`."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Method":
                keywords = {one.arg: one.value for one in node.keywords}
                match node.args[0] if node.args else keywords.get("name"):
                    case ast.Constant(value=str(name)):
                        found.add(name)
                    case _:
                        pass
    return found


def tables(tree: ast.Module, names: set[str]) -> Iterator[int]:
    """The lines of what names three or more methods."""
    yield from dispatched(tree)
    within: set[int] = set()
    for node in ast.walk(tree):
        listed: Sequence[ast.AST | None]
        match node:
            case ast.Dict(keys=keys):
                listed = [*keys, *node.values]
            case ast.Tuple(elts=listed) | ast.List(elts=listed) | ast.Set(elts=listed):
                pass
            case ast.Match(cases=cases):
                listed = [one for case in cases for one in ast.walk(case.pattern)]
            case _:
                continue
        if id(node) in within:
            continue
        if len({name for one in listed for name in _named(one, names)}) >= 3:
            # A table within a table is the same table.
            within |= {id(one) for one in ast.walk(node)}
            yield node.lineno


def dispatched(tree: ast.Module) -> Iterator[int]:
    """The lines of functions that are registered for the plans of three or more methods."""
    plans: dict[str, set[str]] = {}
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        lines[node.name] = node.lineno
        for decorator in node.decorator_list:
            asked = decorator.func if isinstance(decorator, ast.Call) else decorator
            if (
                isinstance(asked, ast.Attribute)
                and asked.attr == "register"
                and isinstance(asked.value, ast.Name)
            ):
                given = decorator.args if isinstance(decorator, ast.Call) else [node.args.args[0].annotation]
                plans.setdefault(asked.value.id, set()).update(
                    one.id for one in given if isinstance(one, ast.Name) and one.id.endswith("Plan")
                )
    yield from (lines.get(name, 1) for name, found in plans.items() if len(found) >= 3)


def _named(node: ast.AST | None, names: set[str]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if text in names:
            yield text
        case ast.MatchValue(value=ast.Constant(value=str(text))) if text in names:
            yield text
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (
            name.isupper() and "method" in module + name.lower()
        ):
            yield f"{module}.{name}"
        case ast.Tuple(elts=listed):
            for one in listed:
                yield from _named(one, names)
        case _:
            return


def runs_of_lines(path: Path) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """The code of every function and class by itself: numbers of lines, and what shape each has.

    Names, strings and numbers of a line are one as good as another, except where a line only names a thing, as a field,
    as an entry of a literal or as an argument. Docstrings, comments, imports, decorators, what stands before a body,
    and lone brackets are no lines of code.
    """
    text = path.read_text(encoding="utf-8")
    written = text.splitlines()
    shapes: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.STRING, tokenize.NUMBER):
            kept = keyword.iskeyword(token.string)
            shapes.setdefault(token.start[0], []).append(token.string if kept else "·")
        elif token.type == tokenize.OP:
            shapes.setdefault(token.start[0], []).append(token.string)
    for scope in ast.walk(ast.parse(text)):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        lines: list[int] = []
        for node in scope.body:
            if isinstance(
                node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            ):
                continue
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                lines += range(node.lineno, (node.end_lineno or node.lineno) + 1)
        shaped = [(line, " ".join(shapes.get(line, ()))) for line in lines]
        shaped = [
            (line, written[line - 1].strip() if NAMES_ONE_THING.fullmatch(shape) else shape)
            for line, shape in shaped
        ]
        yield scope.name, [(line, shape) for line, shape in shaped if re.search(r"[\w·]", shape)]


def repeats(paths: Iterable[Path], least: int = 6) -> list[tuple[str, str]]:
    """Pairs of places at which so many lines of the same shape begin."""
    places: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    scopes = [(path, name, lines) for path in sorted(paths) for name, lines in runs_of_lines(path)]
    for number, (path, name, lines) in enumerate(scopes):
        for start in range(len(lines) - least + 1):
            window = tuple(shape for _, shape in lines[start : start + least])
            place = f"{path.parent.name}/{path.name}:{lines[start][0]} {name}"
            places.setdefault(window, []).append((number, place))
    return [
        (first[1], second[1])
        for found in places.values()
        for first, second in itertools.combinations(found, 2)
        if first[0] != second[0]
    ]


def old_words(text: str) -> list[str]:
    """The names of a module, one for each place, that have a word in them that was given up."""
    return [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME and {word.lower() for word in WORD.findall(token.string)} & OLD_WORDS
    ]


def kinds() -> tuple[set[str], set[str]]:
    """The classes of kinds of columns, labels and maps, and the names that the kinds have in files."""
    classes, names = set(), set()
    for module in ("kinds", "levels", "labels", "maps"):
        tree = ast.parse((SOURCE / "colonnade/data" / f"{module}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
                names |= {
                    str(one.value.value)
                    for one in node.body
                    if isinstance(one, ast.Assign)
                    and isinstance(one.value, ast.Constant)
                    and any(isinstance(target, ast.Name) and target.id == "kind" for target in one.targets)
                }
    return classes, names


def kind_checks(tree: ast.AST, classes: set[str], names: set[str]) -> Iterator[int]:
    """The lines that ask which kind of column, label or map something is."""

    def named(node: ast.AST) -> set[str]:
        return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}

    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]) if (
                named(asked) & classes
            ):
                yield node.lineno
            case ast.MatchClass(cls=asked) if named(asked) & classes:
                yield asked.lineno
            case ast.Call(func=ast.Attribute(attr="register"), args=[asked, *_]) if named(asked) & classes:
                yield node.lineno
            case ast.Compare():
                texts = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                by_name = any(isinstance(one, ast.Attribute) and one.attr == "kind" for one in ast.walk(node))
                if (by_name and texts & names) or named(node) & classes:
                    yield node.lineno
            case _:
                pass


def examples(tree: ast.AST) -> int:
    """Lines of examples in docstrings, and of what they print."""
    reader, found = doctest.DocTestParser(), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for one in reader.get_examples(ast.get_docstring(node) or ""):
                found += len(one.source.splitlines()) + len(one.want.splitlines())
    return found


def written() -> dict[str, Any]:
    """What stands beside the source: tests, pages, and the files that worked examples change."""
    kept = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    words = {
        name: len((ROOT / name).read_text(encoding="utf-8").split()) for name in kept.stdout.splitlines()
    }
    sys.path.insert(0, str(ROOT / "tests/oracles"))
    from worked import files_to_touch

    return {
        "test_lines": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")
        ),
        "lines_moved_out_of_src": sum(
            len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in MOVED
        ),
        "markdown_words": sum(words.values()),
        "readme_words": words["README.md"],
        **{
            f"files_to_touch_for_a_{what}": len(files_to_touch(f"add-a-{what}.md"))
            for what in ("method", "column", "loss")
        },
    }


def named(trees: dict[str, ast.Module], texts: dict[str, str]) -> dict[str, Any]:
    """What names and kinds there are."""
    classes = Counter(
        name
        for tree in trees.values()
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    )
    of_kinds = kinds()
    checks = [
        f"{name}:{line}"
        for name, tree in trees.items()
        if not name.startswith("colonnade.data")
        for line in kind_checks(tree, *of_kinds)
    ]
    old = [f"{name}: {word}" for name, text in texts.items() for word in old_words(text)]
    twice = sorted(name for name, count in classes.items() if count > 1)
    return {
        "doctest_lines": sum(examples(tree) for tree in trees.values()),
        "class_names_twice": len(twice),
        "kind_checks_outside_data": len(checks),
        "old_words": len(old),
        "where": {"classes": twice, "kind checks": checks, "old words": old},
    }


def counted() -> dict[str, Any]:
    """What the source says."""
    paths = modules()
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    lengths = [len(texts[name].splitlines()) for name, path in paths.items() if path.stem != "__init__"]
    trees = {name: ast.parse(text) for name, text in texts.items()}
    edges = graph(trees)
    names = method_names(trees.values())
    listed = {name: list(tables(tree, names)) for name, tree in trees.items()}
    groups = cycles(edges)
    found = named(trees, texts)
    return {
        "source_lines": sum(len(text.splitlines()) for text in texts.values()),
        "modules": len(lengths),
        "median_module_lines": statistics.median(lengths),
        "cycles": len(groups),
        "largest_cycle": len(groups[0]) if groups else 0,
        "tables_naming_methods": sum(len(lines) for lines in listed.values()),
        **{key: value for key, value in found.items() if key != "where"},
        **written(),
        "where": {
            **found["where"],
            "cycles": groups,
            "tables": [f"{name}:{line}" for name, lines in listed.items() for line in lines],
        },
    }


def reads_of_a_file() -> int:
    """How often a training reads the file of a party, at most."""
    sys.path.insert(0, str(ROOT / "tests/oracles"))
    from file_readings import reads_in_training

    most = 0
    for suffix in (".csv", ".csv.gz", ".parquet"):
        with tempfile.TemporaryDirectory() as folder:
            most = max(most, *reads_in_training(Path(folder), suffix=suffix).values())
    return most


def lines_by_room(commit: str | None = None) -> Counter[str]:
    """Lines of Python in every room, here or at a commit; of what lies in no room, together."""
    if commit is None:
        texts = {
            str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in modules().values()
        }
    else:
        kept = subprocess.run(
            ["git", "archive", commit, "src/colonnade"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(kept)) as archive:
            texts = {
                member.name.removeprefix("src/"): read.read().decode()
                for member in archive
                if member.name.endswith(".py") and (read := archive.extractfile(member))
            }
    found: Counter[str] = Counter()
    for name, text in texts.items():
        parts = Path(name).parts
        found[parts[1] if len(parts) > 2 else "beside the rooms"] += len(text.splitlines())
    return found


def grown(commit: str) -> str:
    """A table of rooms with their lines at a commit and here, the one that grew most first."""
    before, here = lines_by_room(commit), lines_by_room()
    rows = sorted(before.keys() | here.keys(), key=lambda room: before[room] - here[room])
    table = [
        f"| {room} | {before[room]:,} | {here[room]:,} | {here[room] - before[room]:+,} |" for room in rows
    ]
    total = f"| all | {before.total():,} | {here.total():,} | {here.total() - before.total():+,} |"
    return "\n".join([f"| room | {commit} | here | |", "|---|---:|---:|---:|", *table, total])


def installed(folder: Path) -> Path:
    """The interpreter of a fresh environment with the project and no extra."""
    venv.create(folder, symlinks=True, with_pip=True)
    python = folder / "bin" / "python"
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        str(ROOT / "constraints.txt"),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the project could not be installed:\n{done.stderr}")
    return python


def size(python: Path) -> float:
    """The files of its packages in megabytes, without pip, setuptools and byte code."""
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    total = 0
    for path in packages.rglob("*"):
        first = path.relative_to(packages).parts[0]
        ours = not first.startswith(("pip-", "setuptools-")) and first not in NOT_OURS
        if ours and path.is_file() and path.suffix != ".pyc":
            total += path.stat().st_size
    return total / 1e6


def processor_seconds(command: list[str]) -> float:
    """User and system time of a command, the least of several starts."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = []
    for _ in range(STARTS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=tempfile.gettempdir())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first one writes byte code.
    return min(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--no-install", action="store_true", help="make no environment; no size is measured")
    parser.add_argument(
        "--since", metavar="COMMIT", help="print lines by room at a commit and here, and nothing else"
    )
    arguments = parser.parse_args()
    if arguments.since:
        print(grown(arguments.since))
        return
    figures = counted()
    where = figures.pop("where")
    figures["reads_of_a_file"] = reads_of_a_file()
    with tempfile.TemporaryDirectory() as folder:
        python = Path(sys.executable) if arguments.no_install else installed(Path(folder) / "core")
        figures["core_install_mb"] = None if arguments.no_install else round(size(python), 1)
        figures["import_cpu_s"] = round(processor_seconds([str(python), "-c", "import colonnade"]), 3)
        asked = [str(python), "-c", "from colonnade.cli import main; main()", "--help"]
        figures["help_cpu_s"] = round(processor_seconds(asked), 3)
    if arguments.json:
        print(json.dumps(figures))
        return
    for key, value in figures.items():
        print(f"{key:28} {value}")
    for what, found in where.items():
        print(f"\n{what}", *found, sep="\n  ")


if __name__ == "__main__":
    main()
