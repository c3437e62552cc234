"""What the tests of the rooms that ε rests on would notice: small mistakes, one at a time, each run against its tests.

A seed draws 120 mutations (benchmarks/mutations.py) over privacy, noise, crypto, ledger, protocols, methods and data,
and kinds that are few in a room are drawn more often than their number. Besides, whatever the seed, every draw of
randomness in these rooms is made constant, one at a time. Each mutant lies in a copy of the sources and is run against
the tests of its room, the examples there and the tests of other rooms: those that reach the mutated line first, then
others that reach its function, the quickest first, and up to ``PATIENCE`` processor-seconds as recorded. Of what is
compiled or stands outside of functions nothing is recorded: there it is who names it, then who reaches the module. Only
tests of pages, of the corpus and of the board, which mostly look at other processes, must name its function. It is
killed by the first test that fails there and passes without it, or that takes ten times as long. At the end all tests
that killed one are run without any mutation, and those that fail there count for nothing.

Prints one JSON object on its last line:

* ``killed_share``: killed, over those drawn that change what the program does; over all seeds together;
* ``equivalent_share``: survivors that change nothing, over those drawn: each is in benchmarks/mutants_equivalent.toml
  with its reason, and is run again only with ``--listed``;
* ``constant_draws_unnoticed``: of ``constant_draws``, how many no test notices;
* ``by_room``: killed, surviving and equivalent in each; ``survivors``: what is left.

Without ``--seed`` the seeds 1, 2 and 3 are run together. Which test reaches what is noted once for each test file, and
kept with all verdicts under build/mutants: an interrupted run goes on, and verdicts count as long as no source and no
test has changed; after that, what killed a mutant before is tried first. ``--rooms privacy,noise`` draws their part.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import hashlib
import importlib
import json
import math
import multiprocessing
import operator
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import mutant_plugin
from mutations import DRAW, Mutation, mutations

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "colonnade"
STATE = ROOT / "build" / "mutants"
EQUIVALENT = ROOT / "benchmarks" / "mutants_equivalent.toml"
# How many of a seed's mutations each room gets; a room that is gone leaves its own to the others.
QUOTAS = {"privacy": 22, "noise": 13, "crypto": 14, "ledger": 21, "protocols": 22, "methods": 17, "data": 11}
SEEDS = (1, 2, 3)
# Processor-seconds: tests of a mutant in all, of its first handful, and of one test file while it is recorded.
PATIENCE, FIRST, RECORDING = 90.0, 6.0, 240.0
# Files that are imported for a mutant, at most.
FILES = 14
# Tests that mostly look at other processes, of which nothing is recorded.
APART = frozenset({"architecture", "board", "corpus", "docs", "golden"})
MEMORY = 12 << 30
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
RUNNING: set[BaseProcess] = set()
# Processes that begin with the libraries read, of which the product itself is none: a second or two each.
FORKS = multiprocessing.get_context("forkserver")
LIBRARIES = [
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "duckdb",
    "hypothesis.strategies",
    "numba",
    "pyarrow.parquet",
    "pydantic",
    "pytest",
    "rich.console",
    "scipy.optimize",
    "scipy.stats",
    "typer.testing",
]
PLACES: list[str] = []


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the test that killed it, or how many it survived."""

    killer: str | None
    tests: int
    seconds: float


def tell(line: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def digest_of(paths: Sequence[Path]) -> str:
    """One digest of all these files."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:24]


class Kept:
    """JSON files that outlive a run, each written whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / (hashlib.sha256(name.encode()).hexdigest()[:24] + ".json")

    def get(self, name: str) -> Any:
        path = self._path(name)
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, name: str, value: Any) -> None:
        with self.lock:
            path = self._path(name)
            path.with_suffix(".new").write_text(json.dumps(value))
            path.with_suffix(".new").replace(path)


class Tree:
    """A copy of the sources beside links to everything else, in which tests are run."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        shutil.copytree(source, folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))
        for path in ROOT.iterdir():
            if path.name not in ("src", "build") and not path.name.startswith("."):
                (folder / path.name).symlink_to(path)

    def pytest(
        self, arguments: Sequence[str], *, limit: float, settings: dict[str, str]
    ) -> tuple[int | None, str]:
        """The exit code, or None after `limit` seconds, and the end of what it said."""
        environment = dict(os.environ) | {
            "PYTHONPATH": f"{self.folder / 'src'}:{ROOT / 'benchmarks'}",
            **settings,
        }
        common = ["-p", "mutant_plugin", "-p", "no:cacheprovider", "-m", "not slow"]
        with tempfile.NamedTemporaryFile("r", suffix=".txt") as said:
            run = (self.folder, environment, [*common, "--rootdir", str(self.folder), *arguments], said.name)
            process = FORKS.Process(target=_pytest_here, args=run)
            process.start()
            RUNNING.add(process)
            try:
                process.join(limit)
                code = process.exitcode
                return code, said.read()[-60_000:] if code is not None else ""
            finally:
                _end(process)
                RUNNING.discard(process)


def _pytest_here(folder: Path, environment: dict[str, str], arguments: list[str], said: str) -> NoReturn:
    """What `python -m pytest` does in this folder, in a process that has read the libraries already."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    target = os.open(said, os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [str(folder), *environment["PYTHONPATH"].split(":")]
    code = int(importlib.import_module("pytest").main(arguments))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End what was started, and then this: what is known by now is kept."""
    for process in tuple(RUNNING):
        _end(process)
    shutil.rmtree(PLACES[-1], ignore_errors=True)
    os._exit(130)


def _end(process: BaseProcess) -> None:
    """The process, and what it started and left behind."""
    process.kill()
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()


@dataclass
class Suite:
    """The tests as they are: which file names what, and what each test reaches."""

    kept: Kept
    base: Tree
    locks: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    recorded: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def texts(self) -> dict[str, str]:
        """Every test file by its path, and the examples of every room by its folder."""
        found = {
            str(path.relative_to(ROOT)): path.read_text()
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
        }
        for room in QUOTAS:
            texts = [path.read_text() for path in sorted((PACKAGE / room).rglob("*.py"))]
            if any(">>> " in text for text in texts):
                found[f"src/colonnade/{room}"] = "".join(texts)
        return found

    @cached_property
    def words(self) -> dict[str, frozenset[str]]:
        """The names in each file of tests."""
        tests = {name: text for name, text in self.texts.items() if name.startswith("tests/")}
        return {name: frozenset(re.findall(r"\w+", text)) for name, text in tests.items()}

    def files(self, mutation: Mutation) -> list[str]:
        """Where tests of this mutant may lie: examples, its room, what names it, other rooms."""
        examples = f"src/colonnade/{mutation.room}"
        named = {word for word in mutation.function.split(".") if len(word) > 7 and not word.startswith("__")}
        named |= _constants(mutation)
        ranked = {examples: 0} if examples in self.texts else {}
        for name, words in self.words.items():
            if name.startswith(f"tests/{mutation.room}/"):
                ranked[name] = 1
            elif named & words:
                ranked[name] = 2
            elif name.split("/")[1] not in APART:
                ranked[name] = 3
        return sorted(ranked, key=lambda name: ranked[name])

    def reach(self, name: str) -> Any:
        """What the tests of a file reach, recorded if it is not known."""
        with self.locks[name]:
            if name not in self.recorded:
                key = f"reach {name} {hashlib.sha256(self.texts[name].encode()).hexdigest()}"
                known = self.kept.get(key)
                if known is None:
                    known, whole = self._record(name)
                    if whole:
                        self.kept.put(key, known)
                self.recorded[name] = known
            return self.recorded[name]

    def _record(self, name: str) -> tuple[Any, bool]:
        """What was found, and whether pytest came to its end: one that is stopped is not kept."""
        with tempfile.NamedTemporaryFile(suffix=".json") as target:
            rooms = [str(self.base.folder / "src" / "colonnade" / room) for room in QUOTAS]
            asked = json.dumps({"target": target.name, "rooms": rooms, "limit": RECORDING})
            begun = time.monotonic()
            settings = {mutant_plugin.REACH: asked}
            code, said = self.base.pytest([name], limit=20 * RECORDING, settings=settings)
            text = Path(target.name).read_text()
        found = json.loads(text) if text else {"tests": [], "reach": {}}
        failed = [test for test, (_, passed) in found["tests"] if not passed]
        tell(f"recorded {name}: {len(found['tests'])} tests, {time.monotonic() - begun:.0f} s")
        if failed:
            tell(f"  and without any mutation these do not pass: {', '.join(failed[:5])}")
        if code not in (0, 1, 5):
            tell(f"  and pytest ended with {code}: {said[-400:]}")
        return found, bool(text) and code in (0, 1, 5)

    def choose(self, mutation: Mutation, source: str, killer: str | None) -> dict[str, float]:
        """Tests in the order in which they are to run, each with its processor time."""
        wanted: list[tuple[int, bool, float, str]] = []
        own, examples = f"src/colonnade/{mutation.module}::", f"src/colonnade/{mutation.room}"
        constants = _constants(mutation)
        files = self.files(mutation)
        place = Place.of(mutation, source)
        reached = (self.reach(name)["reach"].get(mutation.module, {}) for name in files)
        plain = any(place.name in found and place.masks(found[place.name]) for found in reached)
        for name in files:
            known = self.reach(name)
            lines = _reached(known["reach"], mutation, source, place, plain=plain)
            if constants & self.words.get(name, frozenset()):
                # A test that takes the constant itself reaches no line of its module.
                lines = [-1, *lines]
            for number, (test, (seconds, passed)) in enumerate(known["tests"]):
                if passed and test != killer:
                    near = next((level for level, mask in enumerate(lines) if mask >> number & 1), None)
                    if near is not None:
                        elsewhere = not name.startswith((examples, f"tests/{mutation.room}/"))
                        wanted.append((2 * near + (not test.startswith(own)), elsewhere, seconds, test))
        chosen: dict[str, float] = {}
        if killer is not None:
            for name in files:
                known = self.reach(name)["tests"]
                chosen |= {test: seconds for test, (seconds, passed) in known if test == killer and passed}
        imported: set[str] = set()
        total = 0.0
        for *_, seconds, test in sorted(wanted):
            file = test.partition("::")[0]
            if total + seconds > PATIENCE or (file not in imported and len(imported) >= FILES):
                continue
            imported.add(file)
            total += seconds + 0.02
            chosen[test] = seconds
        return chosen


def _constants(mutation: Mutation) -> frozenset[str]:
    """The names that a statement outside all functions gives its value to."""
    for node in ast.parse((PACKAGE / mutation.module).read_text()).body:
        if node.lineno <= mutation.line <= (node.end_lineno or node.lineno):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            return frozenset(one.id for one in targets if isinstance(one, ast.Name))
    return frozenset()


def _imported(text: str) -> frozenset[str]:
    """The modules of the package that a file imports, also as what is taken out of their packages."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return frozenset(found)


@dataclass(frozen=True)
class Place:
    """Where a mutation lies: the innermost function around it, from where its body begins, and its statement."""

    name: str
    digest: str
    first: int
    body: int
    statement: int

    @classmethod
    def of(cls, mutation: Mutation, source: str) -> Place:
        around = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt) and node.lineno <= mutation.line <= (node.end_lineno or node.lineno)
        ]
        inner = [
            node
            for node in around
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        statement = max((node.lineno for node in inner), default=mutation.line)
        places = [one for one in mutant_plugin.functions(source) if one[2] <= mutation.line <= one[3]]
        if not places:
            return cls("", "", 0, 0, statement)
        name, digest, first, _ = places[-1]
        body = next(node.body[0].lineno for node in around if node.lineno == first and hasattr(node, "body"))
        return cls(name, digest, first, body, statement)

    def masks(self, function: Any) -> dict[int, int]:
        """By line the tests, as bits, that ran it; its head runs wherever the module is imported, and says nothing."""
        lines = {self.first + int(offset): int(mask, 16) for offset, mask in function["lines"].items()}
        return {line: mask for line, mask in lines.items() if line >= self.body}


def _union(masks: Iterable[int]) -> int:
    return functools.reduce(operator.or_, masks, 0)


def _reached(reach: Any, mutation: Mutation, source: str, place: Place, *, plain: bool) -> list[int]:
    """Tests as bits, the nearest first: those that reach the line, its function or who names it, its module.

    `plain`: the function is seen where it runs, so that a file in which it is not seen does not reach it.
    """
    inside = reach.get(mutation.module, {})
    callers = {
        caller: _union(int(mask, 16) for offset, mask in function["lines"].items() if offset != "0")
        for caller, function in inside.items()
    }
    whole = _union(callers.values())
    masks = place.masks(inside[place.name]) if place.name in inside else {}
    if not masks and plain:
        return []
    if not masks:
        # Compiled, or not in a function: whatever reaches those who name it.
        lines = source.splitlines()
        words = {mutation.function.split(".")[-1] or mutation.before} | set(
            re.findall(r"[A-Za-z_]\w{2,}", lines[mutation.line - 1].split("=")[0])
        )
        near = _union(
            callers.get(caller, 0)
            for caller, _, start, end in mutant_plugin.functions(source)
            if words & set(re.findall(r"\w+", "\n".join(lines[start - 1 : end])))
        )
        return [near, whole]
    everywhere = _union(masks.values())
    if inside[place.name]["digest"] != place.digest:
        return [everywhere, whole]
    # A statement over several lines is noted where it begins, or at one of them. What never runs the function is left.
    here = _union(masks.get(line, 0) for line in range(place.statement, mutation.place[2] + 1))
    return [here, everywhere]


class Compiled:
    """Which modules' machine code holds something of another module."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}
        for path in PACKAGE.rglob("*.py"):
            dotted = "colonnade." + str(path.relative_to(PACKAGE)).removesuffix(".py").replace("/", ".")
            self.imports[dotted.removesuffix(".__init__")] = set(_imported(path.read_text()))

    def forget(self, folder: Path, module: str) -> None:
        """Remove the machine code that was made of `module`, here or in modules that import it."""
        stale = {"colonnade." + module.removesuffix(".py").replace("/", ".")}
        while True:
            more = {name for name, found in self.imports.items() if found & stale} - stale
            if not more:
                break
            stale |= more
        for index in (folder / "src").rglob("__pycache__/*.nbi"):
            name = f"{index.relative_to(folder / 'src').parent.parent}/{index.name.split('.')[0]}".replace(
                "/", "."
            )
            if name in stale:
                index.unlink()


@dataclass
class Judge:
    """Runs mutants against their tests."""

    suite: Suite
    kept: Kept
    state: str
    work: Path
    compiled: Compiled = field(default_factory=Compiled)
    # Tests that fail without any mutation too.
    unsound: set[str] = field(default_factory=set)
    # What is said to change nothing, and is not run.
    listed: Sequence[dict[str, Any]] = ()

    def verdict(self, mutation: Mutation) -> Verdict:
        """What becomes of it, from what is kept or by running it."""
        if is_listed(mutation, self.listed):
            return Verdict(None, 0, 0.0)
        key = f"verdict {mutation.room} {mutation.name}"
        known = self.kept.get(key)
        if known is not None and known["state"] == self.state and known["killer"] not in self.unsound:
            return Verdict(known["killer"], known["tests"], known["seconds"])
        killer = known["killer"] if known is not None else None
        made = self._run(mutation, None if killer in self.unsound else killer)
        self.kept.put(key, {"state": self.state, **vars(made)})
        return made

    def fail_anyway(self, killers: Sequence[str]) -> set[str]:
        """Which of these tests do not pass by themselves either where nothing is mutated."""
        tests = {test: 30.0 for test in sorted(set(killers)) if "::" in test and not self._known(test)}
        code, said = _run_chosen(self.suite.base, tests, at_once=False) if tests else (0, "")
        failed = set(_FAILED.findall(said)) if code is not None else set(tests)
        for test in tests.keys() - failed if code in (0, 1, None) else ():
            self.kept.put(f"passes {test} {self.state}", True)
        found = {test for test in tests if not self._known(test) and not self._passes(test)}
        self.unsound |= found
        return found

    def _known(self, test: str) -> bool:
        return self.kept.get(f"passes {test} {self.state}") is True

    def _passes(self, test: str) -> bool:
        """Whether it passes alone where nothing is mutated."""
        passes = _run_chosen(self.suite.base, {test: 30.0})[0] == 0
        self.kept.put(f"passes {test} {self.state}", passes)
        return passes

    def _run(self, mutation: Mutation, killer: str | None) -> Verdict:
        begun = time.monotonic()
        source = (PACKAGE / mutation.module).read_text()
        changed = mutation.applied(source)
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            raise ValueError(f"{mutation.module}: {mutation.name} changes nothing")
        chosen = self.suite.choose(mutation, source, killer)
        with tempfile.TemporaryDirectory(dir=self.work) as place:
            tree = Tree(Path(place), self.suite.base.folder / "src")
            self.compiled.forget(tree.folder, mutation.module)
            (tree.folder / "src" / "colonnade" / mutation.module).write_text(changed)
            for batch in _batches(chosen, killer):
                found = self._tried(tree, batch)
                if found is not None:
                    return Verdict(found, len(chosen), round(time.monotonic() - begun, 1))
        return Verdict(None, len(chosen), round(time.monotonic() - begun, 1))

    def _tried(self, tree: Tree, batch: dict[str, float]) -> str | None:
        """What fails among these tests with the mutation and not without it, if anything does."""
        left = dict(batch)
        while left:
            code, said = _run_chosen(tree, left)
            if code is None:
                return f"{next(iter(left))} and others: not done in {_limit(left):.0f} s"
            if code in (0, 5):
                return None
            failed = _FAILED.findall(said)
            if not failed or failed[0] not in left:
                return f"the import of {failed[0] if failed else next(iter(left)).partition('::')[0]}"
            if failed[0] not in self.unsound:
                return str(failed[0])
            del left[failed[0]]
        return None


def _run_chosen(tree: Tree, chosen: dict[str, float], *, at_once: bool = True) -> tuple[int | None, str]:
    """Run these tests, until the first that fails or, unless `at_once`, all of them."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in chosen))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        json.dump({test: 30 + 10 * seconds for test, seconds in chosen.items()}, listed)
        listed.flush()
        return tree.pytest(
            [*(["-x"] if at_once else []), "-rfE", "--tb=no", *files],
            limit=_limit(chosen),
            settings={mutant_plugin.CHOSEN: listed.name},
        )


def _limit(chosen: dict[str, float]) -> float:
    """Seconds that a run may take: far more than it takes on a busy machine."""
    return 90 + 12 * sum(chosen.values())


def _batches(chosen: dict[str, float], killer: str | None) -> Iterator[dict[str, float]]:
    """What killed it before; a handful that is quick; the rest, file by file so that fixtures are made once."""
    left = dict(chosen)
    if killer in left:
        yield {killer: left.pop(killer)}
    first: dict[str, float] = {}
    for test, seconds in left.items():
        files = {name.partition("::")[0] for name in (*first, test)}
        if sum(first.values()) + seconds <= FIRST and len(files) <= 3 and len(first) < 60:
            first[test] = seconds
    if first:
        yield first
    rest = {test: seconds for test, seconds in left.items() if test not in first}
    order = {
        file: place for place, file in enumerate(dict.fromkeys(test.partition("::")[0] for test in rest))
    }
    if rest:
        yield dict(sorted(rest.items(), key=lambda one: order[one[0].partition("::")[0]]))


def everything(rooms: Sequence[str]) -> list[Mutation]:
    """Every mutation of these rooms."""
    found = []
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found += mutations(str(path.relative_to(PACKAGE)), path.read_text())
    return found


def sample(seed: int, among: Sequence[Mutation], quotas: dict[str, int]) -> list[Mutation]:
    """A seed's draw. A mutation's lot is drawn by its name, so that other places of the tree do not change it."""
    found = []
    for room, quota in quotas.items():
        inside = list({one.name: one for one in among if one.room == room and one.kind != DRAW}.values())
        kinds = Counter(one.kind for one in inside)

        def lot(one: Mutation, kinds: Counter[str] = kinds) -> float:
            drawn = hashlib.sha256(f"{seed} {one.name}".encode()).digest()
            uniform = (int.from_bytes(drawn[:7]) + 1) / 2**56
            return -math.log(uniform) * math.sqrt(kinds[one.kind])

        found += sorted(inside, key=lot)[:quota]
    return found


def quotas_of(rooms: Sequence[str]) -> dict[str, int]:
    """What each room that is there gets of a seed's mutations."""
    there = [room for room in QUOTAS if (PACKAGE / room).is_dir()]
    whole, held = sum(QUOTAS.values()), sum(QUOTAS[room] for room in there)
    quotas = {room: QUOTAS[room] * whole // held for room in there}
    quotas[there[0]] += whole - sum(quotas.values())
    return {room: quota for room, quota in quotas.items() if room in rooms}


def equivalents() -> list[dict[str, Any]]:
    """Survivors that are said to change nothing, as they are listed."""
    listed: list[dict[str, Any]] = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return listed


def is_listed(mutation: Mutation, listed: Sequence[dict[str, Any]]) -> bool:
    """Whether one of these is meant: in its module, or wherever it went if that is gone."""
    return any(
        (one["function"], one["before"], one["after"], one.get("nth", 0))
        == (mutation.function, mutation.before, mutation.after, mutation.nth)
        and (one["module"] == mutation.module or not (PACKAGE / one["module"]).exists())
        for one in listed
    )


def described(mutation: Mutation) -> str:
    """For people."""
    where = f"{mutation.module}:{mutation.line} {mutation.function}"
    return f"{where} [{mutation.kind}] {mutation.before} → {mutation.after}"


def measure(
    seeds: Sequence[int], rooms: Sequence[str], *, workers: int, only_draws: bool, listed: bool
) -> dict[str, Any]:
    """All of it."""
    begun = time.monotonic()
    quotas = quotas_of(rooms)
    among = everything(list(quotas))
    samples = [] if only_draws else [sample(seed, among, quotas) for seed in seeds]
    drawn = list({(one.room, one.name): one for whole in samples for one in whole}.values())
    draws = [one for one in among if one.kind == DRAW]
    state = digest_of([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    kept = Kept(STATE)
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, ThreadPoolExecutor(workers) as pool:
        PLACES.append(place)
        base = Tree(Path(place) / "base", ROOT / "src")
        suite = Suite(kept, base)
        judge = Judge(suite, kept, state, Path(place), listed=() if listed else equivalents())
        files = list(dict.fromkeys(name for one in (*drawn, *draws) for name in suite.files(one)))
        tell(f"{len(drawn)} mutations and {len(draws)} draws, {len(files)} files of tests")
        list(pool.map(suite.reach, files))

        def judged(numbered: tuple[int, Mutation]) -> Verdict:
            number, one = numbered
            made = judge.verdict(one)
            outcome = f"killed by {made.killer}" if made.killer else f"SURVIVED {made.tests} tests"
            tell(f"{number}/{len(drawn) + len(draws)} {made.seconds:.0f} s {described(one)}: {outcome}")
            return made

        verdicts = list(pool.map(judged, enumerate((*drawn, *draws), 1)))
        while unsound := judge.fail_anyway([made.killer for made in verdicts if made.killer is not None]):
            tell(f"do not pass without any mutation either: {', '.join(sorted(unsound))}")
            verdicts = list(pool.map(judged, enumerate((*drawn, *draws), 1)))
    return {
        "seeds": list(seeds),
        **summary(drawn, verdicts[: len(drawn)]),
        **summary_of_draws(draws, verdicts[len(drawn) :]),
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }


def summary(drawn: Sequence[Mutation], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The figures of what was drawn."""
    listed = equivalents()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for one, made in zip(drawn, verdicts, strict=True):
        same = is_listed(one, listed)
        if made.killer is not None:
            counts[one.room]["killed"] += 1
            if same:
                tell(f"is called equivalent, and was killed: {described(one)}")
        elif same:
            counts[one.room]["equivalent"] += 1
        else:
            counts[one.room]["survived"] += 1
            survivors.append(described(one))
    whole: Counter[str] = sum(counts.values(), Counter())
    return {
        "mutants": len(drawn),
        "killed": whole["killed"],
        "equivalent": whole["equivalent"],
        "killed_share": round(whole["killed"] / max(1, whole["killed"] + whole["survived"]), 4),
        "equivalent_share": round(whole["equivalent"] / max(1, len(drawn)), 4),
        "by_room": {
            room: {name: counts[room][name] for name in ("killed", "survived", "equivalent")}
            for room in counts
        },
        "survivors": survivors,
    }


def summary_of_draws(draws: Sequence[Mutation], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The figures of draws made constant."""
    unnoticed = [described(one) for one, made in zip(draws, verdicts, strict=True) if made.killer is None]
    return {"constant_draws": len(draws), "constant_draws_unnoticed": len(unnoticed), "unnoticed": unnoticed}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="one draw of 120; without it, seeds 1, 2 and 3 together")
    parser.add_argument("--rooms", help="only these, with commas between")
    parser.add_argument("--draws", action="store_true", help="only draws of randomness made constant")
    parser.add_argument("--listed", action="store_true", help="run survivors that are called equivalent too")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="only the last line")
    asked = parser.parse_args()
    # Two workers have two cores: a second thread of either would only spin on the other's.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    FORKS.set_forkserver_preload(LIBRARIES)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _stop)
    rooms = asked.rooms.split(",") if asked.rooms else list(QUOTAS)
    found = measure(
        SEEDS if asked.seed is None else (asked.seed,),
        rooms,
        workers=asked.workers,
        only_draws=asked.draws,
        listed=asked.listed,
    )
    if not asked.json:
        for line in (*found["survivors"], *found["unnoticed"]):
            print(line)
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
