"""What the golden comparison needs that knows nothing of Colonnade: plain values, digests, TOML, graphs."""

import contextlib
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np


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
    if isinstance(value, str) and value.replace(".", "").replace("_", "").isalnum():
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
