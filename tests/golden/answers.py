"""What this version answers to golden cases: the one file of the comparison that knows Colonnade's API.

Each function takes the question of a case and returns plain values. `WORDS` has what the cases call otherwise than
this version, their word first; it is applied to whole keys and texts, both ways.
"""

import contextlib
import hashlib
import json
import re
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cli_project import Said, invoked

import colonnade
from colonnade import Federation, MomentRelease, Schema, Table
from colonnade.data.encoder import Quantizer
from colonnade.data.sources import DuckDBSource, SQLiteSource
from colonnade.errors import ColonnadeError
from colonnade.evaluation.held_out import check_held_out, evaluate_trained
from colonnade.federation.job import Job
from colonnade.federation.train import check_people, model_for, protocol_of, result_for
from colonnade.ledger import HoldoutSplit, Ledger, LedgerLine, Receipt, Release
from colonnade.ledger.release import CoalitionBound
from colonnade.models.files.onnx import onnx_model
from colonnade.planning.forecast import forecast, trained_on
from colonnade.planning.pilot import PilotRuns
from colonnade.planning.recommend import features_of, plan_job
from colonnade.privacy.events import event_from_data
from colonnade.protocols.plans import guarantees_of

WORDS = {"keepers": "computing_parties", "judged": "evaluated", "intermediate": "private-messages"}
WORDS |= {"asked": "requested", "judgement": "evaluation"}
CANARY = "7731"
SPENT = ("dataset", "unit", "observer", "epsilon", "delta", "left", "entries")
TOTALS = (*SPENT[:5], "budget_epsilon", *SPENT[5:], "reproducible", "part", "otherwise")
ROLES = ("threshold", "computing_parties", "disclosed_noise", "server", "alignment", "held_out")


def answer(kind: str, case: dict[str, Any], folder: Path) -> Any:
    """What this version says to a case of `folder`, in the words of the case."""
    said = KINDS[kind](with_words(case, WORDS), folder)
    return json.loads(json.dumps(plain(with_words(said, {new: old for old, new in WORDS.items()}))))


def _number(error: BaseException) -> str:
    return error.number if isinstance(error, ColonnadeError) else type(error).__name__


def _job(fields: dict[str, Any]) -> Job:
    return Job.parse(toml({"name": "golden", **fields}))


def _schema(fields: dict[str, Any]) -> Schema:
    return Schema.parse(toml(fields))


def _guarantee(found: Any) -> list[Any]:
    return [found.observer.name, found.unit.name, found.epsilon, found.delta]


def plan(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Guarantees, noise and charges of a plan without data; where the case wants it, bytes and rounds of a run."""
    try:
        job = _job(case["job"])
        schemas = {party: _schema(fields).public(party) for party, fields in case["parties"].items()}
        planned = plan_job(job, schemas, rows=trained_on(case["rows"], job.held_out))
        method = protocol_of(job)
        noise = method.noise(planned)
        said: dict[str, Any] = {
            "method": job.method,
            "rows": planned.rows,
            "delta": planned.delta,
            "features": features_of(job.task, schemas),
            "guarantees": [
                [*_guarantee(g), re.findall(r"ε = ([0-9.e-]+|∞)", str(g))[1:]]
                for g in guarantees_of(planned.views, planned.delta)
            ],
            "noise": None if noise is None else [noise.deviation, noise.people],
            "charged": {
                owner: sorted(f"{line.observer} {line.unit}" for line in planned.lines_for(owner))
                for owner in planned.group.owners
            },
            "keepers": [*planned.group.computing_parties, planned.group.threshold],
        }
    except Exception as error:
        return {"error": _number(error)}
    try:
        check_people(planned, noise)
    except ColonnadeError as error:
        said["few"] = error.number
    try:
        if job.held_out:
            check_held_out(planned, job.held_out, epsilon=job.epsilon)
    except ColonnadeError as error:
        said["judged"] = error.number
    if case.get("forecast"):
        pilots = PilotRuns(schemas, effort=60.0, draws=1, tries=1, weighed=False)
        cost = forecast(pilots, method, job.spec, planned, simulated=False).cost
        said |= {"bytes": cost.bytes_sent, "rounds": cost.rounds}
    return said


def coding(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Codes, features and clipping of a file or query, from Parquet also through frames; or how it is refused."""
    if "database" in case:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / f"house.{case['database']}"
            write_database(case["database"], case["statements"], path)
            source = SQLiteSource if case["database"] == "sqlite" else DuckDBSource
            requested = case["sql"], path, tuple(case.get("combines_rows", ()))
            return _coded(lambda: Table("house", source(*requested), _schema(case["schema"])), case)
    path = folder / case["file"]
    said = _coded(lambda: Table("house", path, _schema(case["schema"])), case)
    if path.suffix == ".parquet" and path.read_bytes()[-4:] == b"PAR1":
        from_file = dict(said)
        for name, frame in frames(path).items():
            held = _coded(lambda frame=frame: Table.of("house", frame, _schema(case["schema"])), case)  # type: ignore[misc]
            same = "same" if held == from_file else held.get("columns")
            said[f"from {name}"] = held.get("error", same)
    return said


def _coded(table: Callable[[], Table], case: dict[str, Any]) -> dict[str, Any]:
    try:
        return _codes(table(), case)
    except Exception as error:
        shown = "".join(traceback.format_exception(error))
        counts = re.findall(r"(?<![\w.'])(\d+) (?:values?|ids?|rows?|lines?|cells?)", str(error))
        return {"error": _number(error), "counts": sorted(map(int, counts)), "leaks": CANARY in shown}


def _codes(table: Table, case: dict[str, Any]) -> dict[str, Any]:
    table.check()
    ids, blocks = list(table.ids()), list(table.blocks(case.get("block", 1 << 16)))
    encoder = table.schema.encoder(case.get("mode", "circle"))
    quantizer = Quantizer(encoder, attributes_total=encoder.attributes, gamma=case.get("gamma", 1 << 12))
    integers = np.concatenate([quantizer.quantize(block) for block in blocks])
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    for place, label in enumerate(table.schema.labels):
        columns[f"label {label.column}"] = np.concatenate([block.labels[place] for block in blocks])
    return {
        "rows": table.rows,
        "ids": [digest(ids), *ids[:3]],
        "columns": {name: [digest(values), *plain(values[:3])] for name, values in columns.items()},
        "features": list(encoder.feature_names),
        "integers": [digest(integers), *integers[:2].tolist()],
        "clipped": dict(table.clipping.counts),
        "standardised": list(table.clipping.standardised),
    }


def _federation(case: dict[str, Any], job: Job, folder: Path) -> Federation:
    tables = [
        Table(party, folder / had["data"], _schema(had["schema"])) for party, had in case["parties"].items()
    ]
    more: dict[str, Any] = {name: getattr(job, name) for name in ROLES}
    if "shown" in case:
        more["shown_ids"] = case["shown"]
    more |= {"budget": tuple(case.get("budget", (1000.0, 1e-5))), "public": case.get("public", False)}
    return Federation(tables, noise_seed=case["seed"], **more)


def _totals(federation: Federation) -> dict[str, Any]:
    return {
        party: sorted([getattr(t, name) for name in SPENT] for t in federation.ledgers[party].totals())
        for party in federation.tables
    }


def _said(fitted: Any, people: dict[str, Any]) -> dict[str, Any]:
    """What a model says of people: components; or predictions, with probabilities or margins where it has them."""
    if hasattr(fitted, "transform"):
        return {"components": fitted.transform(people)}
    said = {"predicted": fitted.predict(people)}
    for name in ("predict_proba", "decision_function"):
        if hasattr(fitted, name):
            return {**said, name: getattr(fitted, name)(people)}
    return said


def _traffic(outcome: Any) -> dict[str, Any]:
    return {"bytes": dict(sorted(outcome.bytes_by_step.items())), "rounds": outcome.rounds}


def run(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    federation = None
    try:
        job = _job(case["job"])
        federation = _federation(case, job, folder)
        return _aligned(federation) if case.get("only") == "align" else _trained(job, federation, case)
    except Exception as error:
        ledgers = {} if federation is None else federation.ledgers
        charges = (sum(entry.kind == "charge" for entry in ledger.entries()) for ledger in ledgers.values())
        return {"error": _number(error), "charged": sorted(charges)}


def _aligned(federation: Federation) -> dict[str, Any]:
    outcome = federation.align()
    ids = {owner: list(outcome.results[owner].table.ids()) for owner in federation.tables}
    return {
        "ids": {owner: [len(common), digest(sorted(common))] for owner, common in ids.items()},
        "same order": len(set(map(tuple, ids.values()))) == 1,
        **_traffic(outcome),
    }


def _trained(job: Job, federation: Federation, case: dict[str, Any]) -> dict[str, Any]:
    result: Any
    try:
        result = result_for(job, federation)
    except ColonnadeError as error:
        if not federation.runs:
            raise
        result = error
    done = federation.runs[0]
    said: dict[str, Any] = {
        "rows": done.plan.rows,
        "seeded": done.reproducible,
        **_traffic(done.outcome),
        "guarantees": [_guarantee(g) for g in done.plan.guarantees],
        "totals": _totals(federation),
    }
    if isinstance(result, Exception):
        return {**said, "model": {"error": _number(result)}}
    if isinstance(result, MomentRelease):
        said["integers"] = [digest(result.matrix), *result.matrix.ravel()[:6].tolist()]
    elif hasattr(result, "coefficients"):
        said["coefficients"] = [result.coefficients, result.intercepts]
    try:
        said["model"] = _said(model_for(job, result).fit(result), case["people"])
    except Exception as error:
        said["model"] = {"error": _number(error)}
    if job.held_out is not None:
        evaluated: Any = evaluate_trained(job, federation, result, done)
        said["judged"] = "not judged"
        if not isinstance(evaluated, str):
            figures = sorted(evaluated.estimate.figures.items())
            said["judged"] = {name: [found.value, found.error] for name, found in figures}
        said["totals after"] = _totals(federation)
    return said


def ledger(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "house.ledger"
        book = Ledger.create(path, "house") if case.get("file") else Ledger.in_memory("house")
        steps: list[Any] = []
        for verb, *given in case["steps"]:
            try:
                if verb == "reopen":
                    book = Ledger.open(path)
                    steps.append(book.verify([book.receipt()]).entries)
                else:
                    steps.append(_step(book, verb, given))
            except ColonnadeError as error:
                steps.append(error.number)
            except ValueError as error:
                steps.append(type(error).__name__)
        totals = [[*(getattr(t, name) for name in TOTALS), bool(t.because)] for t in book.totals()]
        kinds = [entry.kind for entry in book.entries()]
        contradictions = len(book.contradictions())
        return {"steps": steps, "totals": sorted(totals), "entries": kinds, "contradictions": contradictions}


def _step(book: Ledger, verb: str, given: list[Any]) -> Any:
    match verb:
        case "budget":
            book.set_budget(*given)
            return "ok"
        case "charge":
            return book.charge(_release(given[1]), given[0], fresh=len(given) > 2 and given[2]).entry
        case "fits":
            return book.what_fits(*given)
        case "compared":
            book.note_comparison(given[0], given[1], run=given[2])
            return len(book.comparisons())
        case "receipt":
            book.keep_receipt(Receipt(given[0], given[1], given[2] * 64, given[3] * 64))
            return len(book.receipts())
    raise KeyError(verb)


def _release(fields: dict[str, Any]) -> Release:
    tuples = ("owners", "shown_to", "share_holders", "noise_from")
    more: dict[str, Any] = {name: tuple(fields[name]) for name in tuples if name in fields}
    more |= {name: fields[name] for name in ("threshold", "published", "server", "exact") if name in fields}
    if "part" in fields:
        key, share, name = fields["part"]
        more["part"] = HoldoutSplit(bytes.fromhex(key * 32), share, "column id").part(name)
    lines = tuple(
        LedgerLine(observer, unit, event_from_data(e)) for observer, unit, e in fields.get("lines", [])
    )
    more["coalitions"] = tuple(
        CoalitionBound(size, event_from_data(e)) for size, e in fields.get("coalitions", [])
    )
    said = fields.get("run", "run"), "5f0c", fields.get("what", "a sum"), "server"
    return Release(fields["id"], *said, lines, fields.get("seeded", False), **more)


def _invoke(words: list[str], folder: Path) -> Said:
    with contextlib.chdir(folder):
        return invoked(words)


@cache
def _prepared(requested: str, folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A job, each party's file, schema and rows, and what the commands before leave."""
    name, before, changes = json.loads(requested)
    place = tempfile.TemporaryDirectory(prefix="golden-")
    made = Path(place.name)
    project = json.loads((folder / name).read_text(encoding="utf-8"))
    project = with_changes(with_words(project, WORDS), changes)
    (made / "job.toml").write_text(toml(project["job"]), encoding="utf-8")
    for party, had in project["parties"].items():
        (made / f"{party}.toml").write_text(toml({"party": party, **had["file"]}), encoding="utf-8")
        (made / f"{party}.schema.toml").write_text(toml(had["schema"]), encoding="utf-8")
        shutil.copyfile(folder / had["data"], made / f"{party}.csv")
    for more, source in project.get("more", {}).items():
        shutil.copyfile(folder / source, made / more)
    for words in before:
        said = _invoke(words, made)
        if said.code:
            raise RuntimeError(f"{words}: {said.err}")
    return place


def cli(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The exit code, the number of the error, what was written, and of --json the keys."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place) / "here"
        requested = json.dumps([case["project"], case.get("before", []), case.get("changes", [])])
        shutil.copytree(_prepared(requested, folder).name, here)
        for name, text in case.get("files", {}).items():
            if text is None:
                (here / name).unlink()
            else:
                (here / name).write_text(text, encoding="utf-8")
        before = set(here.rglob("*"))
        code, out, err = _invoke(case["args"], here)
        new = {
            path.relative_to(here).parts[0]
            for path in set(here.rglob("*")) - before
            if ".ledger" not in str(path)
        }
    number = re.search(r"\bE\d{3}\b", err) or re.search(r'(?<=")E\d{3}(?=")', out) if code else None
    said: dict[str, Any] = {
        "code": code,
        "error": number and number[0],
        "traceback": "Traceback" in out + err,
        "leaks": f"CANARY{CANARY}" in out + err,
        "wrote": sorted(new),
    }
    if "--json" in case["args"]:
        is_object = out.strip().startswith("{")
        said["keys"] = sorted(paths(json.loads(out), case.get("depth", 2))) if is_object else "no object"
        if case.get("numbers") and not code:
            said["numbers"] = numbers_in(json.loads(out))
    return said


def model(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A learner fitted by a federation or from its release, what it says, its file read again, and its graph."""
    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        try:
            fitted = _fitted(case, folder, Path(place), said)
            said["said"] = _said(fitted, case["people"])
        except Exception as error:
            return {**said, "error": _number(error)}
        try:
            if hasattr(fitted, "save"):
                fitted.save(Path(place) / "model.json")
                again = _said(type(fitted).load(Path(place) / "model.json"), case["people"])
                said["file round trip"] = plain(again) == plain(said["said"])
        except Exception as error:
            said["file round trip"] = _number(error)
        try:
            graph = bytes(onnx_model(fitted).SerializeToString())
            said["onnx"] = graph_answers(graph, case["people"], said["said"])
        except Exception as error:
            said["onnx"] = _number(error)
    return said


def _fitted(case: dict[str, Any], folder: Path, place: Path, said: dict[str, Any]) -> Any:
    federation = _federation(case, _job(case["job"]), folder)
    learner = getattr(colonnade, case["learner"])(**case.get("arguments", {}))
    if case["from"] != "release":
        return learner.fit(federation)
    job = case["job"]
    conditional = case.get("conditional", False)
    release = federation.moments(
        task=job["task"], epsilon=job["epsilon"], delta=1e-5, conditional=conditional
    )
    release.save(place / "release.npz")
    kept = MomentRelease.load(place / "release.npz")
    same = (kept.matrix == release.matrix).all() and kept.guarantees == release.guarantees
    said["release round trip"] = bool(same)
    for verb, *given in case.get("views", []):
        kept = kept.for_label(*given) if verb == "label" else kept.select(given)
    if case.get("ranked"):
        said["ranked"] = list(colonnade.rank_columns(kept).best(3))
    return learner.fit(kept)


# What knows nothing of Colonnade: plain values, digests, TOML, graphs.


def plain(value: Any) -> Any:
    """As JSON has it: floats to twelve digits, and those that JSON cannot write as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.12g}") if np.isfinite(value) else str(value)
    return value


def digest(values: Any) -> str:
    """Of integers and texts as they are, of floats to twelve digits, in order."""
    flat = np.asarray(values, dtype=object).ravel().tolist()
    text = ",".join(f"{item + 0.0:.12g}" if isinstance(item, float) else str(item) for item in flat)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_words(value: Any, words: dict[str, str]) -> Any:
    """The same value with whole keys and whole texts replaced, and the steps of dotted paths."""
    if isinstance(value, dict):
        return {words.get(key, key): with_words(item, words) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_words(item, words) for item in value]
    if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value):
        return ".".join(words.get(step, step) for step in value.split("."))
    return value


def toml(table: dict[str, Any]) -> str:
    """A document. A text that begins with @ is written without quotes, for dates and infinity."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
            lines += [
                f"{json.dumps(key)}.{json.dumps(inner)} = {_inline(item)}" for inner, item in value.items()
            ]
        else:
            lines.append(f"{json.dumps(key)} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, str) and value.startswith("@"):
        return value[1:]
    return json.dumps(value, ensure_ascii=False)


def with_changes(project: dict[str, Any], changes: list[Any]) -> dict[str, Any]:
    """The project with values set, or taken out where the new value is None; a place is a list of keys."""
    project = json.loads(json.dumps(project))
    for place, value in changes:
        table = project
        for key in place[:-1]:
            table = table[key]
        if value is None:
            table.pop(place[-1], None)
        else:
            table[place[-1]] = value
    return project


def write_database(kind: str, statements: list[str], path: Path) -> None:
    if kind == "sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)
    else:
        import duckdb

        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)


def frames(path: Path) -> dict[str, Any]:
    """A Parquet file as each library that can read it holds it."""
    import polars
    import pyarrow.parquet as pq

    read = {}
    readers: dict[str, Any] = {
        "arrow": pq.read_table,
        "pandas": lambda at: pq.read_table(at).to_pandas(),
        "polars": polars.read_parquet,
    }
    for name, reader in readers.items():
        with contextlib.suppress(Exception):
            read[name] = reader(path)
    return read


def paths(value: Any, depth: int, above: str = "") -> set[str]:
    """The keys of a JSON value to a depth, as dotted paths; lists add [] to the name above them."""
    if not depth:
        return set()
    if isinstance(value, dict):
        below = [paths(item, depth - 1, f"{above}{key}.") for key, item in value.items()]
        return {f"{above}{key}" for key in value}.union(*below)
    if isinstance(value, list):
        return set().union(
            *(paths(item, depth, f"{above[:-1]}[].") for item in value if isinstance(item, dict))
        )
    return set()


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def graph_answers(graph: bytes, people: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """What an ONNX graph says of people, and whether it agrees with what the model said."""
    import onnxruntime

    def fed(values: list[Any], kind: str) -> Any:
        if kind == "tensor(string)":
            return np.array(["" if value is None else str(value) for value in values], dtype=object)
        if isinstance(values[0], str):
            return (np.array(values, dtype="datetime64[us]").astype(np.int64) / 86_400_000_000).astype(
                np.float64
            )
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    inputs = {item.name: fed(people[item.name], item.type).reshape(-1, 1) for item in session.get_inputs()}
    outputs = [item.name for item in session.get_outputs()]
    results = dict(zip(outputs, session.run(None, inputs), strict=True))
    scores = np.asarray(results[next(name for name in outputs if name != "label")], dtype=np.float64).ravel()
    keys = ("predict_proba", "decision_function", "components", "predicted")
    model = np.asarray(next(said[key] for key in keys if key in said), dtype=np.float64).ravel()
    return {
        "inputs": sorted(inputs),
        "outputs": sorted(outputs),
        "numbers": [float(f"{score:.7g}") for score in scores],
        "agrees": scores.size == model.size and bool(np.allclose(scores, model, rtol=1e-6, atol=1e-6)),
    }


KINDS = {"plans": plan, "coding": coding, "runs": run, "ledger": ledger, "cli": cli, "models": model}
