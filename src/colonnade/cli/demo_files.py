"""The demonstrations' files: organisations' tables, schemas, party files and jobs, as a user would write them."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from colonnade.cli.schema import job_text, party_text
from colonnade.randomness import public_permutation

FOLDER = Path("demo-run")
Rows: TypeAlias = Sequence[int] | np.ndarray[Any, Any]
TEST_SHARE = 0.2
# What a party grants, in runs: a few, and then its ledger refuses.
RUNS_GRANTED = 4
CENSUS = "income"
VISITS = "visits"
PEOPLE, RICH = 32_561, 7_841
INCOMES = ("at most 50,000", "above 50,000")
PARTIES = tomllib.loads(Path(__file__).with_name("census.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, eq=False)
class People:
    """Public people: their columns, who holds which, and how a schema declares each.

    The first party holds the label. The `seed` says who is held out: all their columns are in a file, and
    those of `visits` also party by party, with a job for scoring them.
    """

    title: str
    parties: Mapping[str, Sequence[str]]
    values: dict[str, np.ndarray[Any, Any]]
    declared: Mapping[str, Sequence[str]]
    key: str
    label: str
    dataset: str
    delta: float
    many: str
    seed: int
    visits: bool

    def columns(self, rows: Rows) -> dict[str, Any]:
        return {name: self.values[name][rows] for names in self.parties.values() for name in names}

    def write_csv(self, path: Path, names: Iterable[str], rows: Rows) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([self.key, *names])
            columns = [self.values[name][rows] for name in names]
            writer.writerows(zip((f"P{row:04d}" for row in rows), *columns, strict=True))

    def schema_text(self, names: Sequence[str], *, label: bool) -> str:
        lines = ["# Declared from what is published, never measured.", f'id = "{self.key}"', ""]
        for name in names:
            lines += [f'[columns."{name}"]', *self.declared[name], ""]
        if label:
            lines += ["[label]", f'column = "{self.label}"', *self.declared[self.label], ""]
        return "\n".join(lines)


def patients() -> People:
    """Declared bounds are the published mean ± 1.5 standard deviations of each column, to three digits."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    classes = ["malignant", "benign"]
    values = {str(name): data.data[:, column] for column, name in enumerate(data.feature_names)}
    declared = {"diagnosis": ['kind = "classes"', f"classes = {json.dumps(classes)}"]}
    for name, column in values.items():
        low, high = (float(f"{column.mean() + side * column.std():.3g}") for side in (-1.5, 1.5))
        declared[name] = ['kind = "numeric"', f"low = {low}", f"high = {high}"]
    return People(
        "Tumour diagnosis from two organisations",
        {"clinic": list(values)[20:], "laboratory": list(values)[:20]},
        {**values, "diagnosis": np.array(classes, dtype=object)[data.target]},
        declared,
        key="patient",
        label="diagnosis",
        dataset="breast cancer",
        delta=1e-5,
        many="patients",
        seed=1,
        visits=True,
    )


def census() -> People:
    """Everybody's columns, each with the counts that are published."""
    values = {CENSUS: np.repeat(np.array(INCOMES, dtype=object), [PEOPLE - RICH, RICH])}
    declared = {CENSUS: ['kind = "classes"', f"classes = {json.dumps(INCOMES)}"]}
    tables = {name: counts for columns in PARTIES.values() for name, counts in columns.items()}
    for number, (name, counts) in enumerate(tables.items()):
        texts = np.array(list(counts), dtype=object)
        poor = np.repeat(texts, [everybody - rich for everybody, rich in counts.values()])
        rich = np.repeat(texts, [rich for _, rich in counts.values()])
        halves = ((poor, 2 * number), (rich, 2 * number + 1))
        values[name] = np.concatenate([half[public_permutation(len(half), seed)] for half, seed in halves])
        kind, key = ("binary", "values") if len(counts) == 2 else ("categorical", "categories")
        declared[name] = [f'kind = "{kind}"', f"{key} = {json.dumps(list(counts))}"]
    return People(
        "Income from a bank and a registry",
        {party: list(columns) for party, columns in PARTIES.items()},
        values,
        declared,
        key="person",
        label=CENSUS,
        dataset="census 1994",
        delta=1e-6,
        many="people",
        seed=PEOPLE,
        visits=False,
    )


def write_demo(folder: Path, people: People, *, epsilon: float) -> Rows:
    """Write everything that users would have, and return who is held out of it: a fifth of these public people."""
    order = public_permutation(len(people.values[people.label]), people.seed)
    held_out, kept = np.split(order, [round(TEST_SHARE * len(order))])
    write_parties(folder, people, kept, budget=RUNS_GRANTED * epsilon)
    parties = tuple(people.parties)
    text = job_text(people.title, parties, parties[0], "classification", epsilon, people.delta)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    people.write_csv(folder / f"new-{people.many}.csv", people.columns(held_out), held_out)
    if people.visits:
        visits = folder / VISITS
        visits.mkdir()
        write_parties(visits, people, held_out, budget=RUNS_GRANTED * epsilon, above="../")
        (visits / "job.toml").write_bytes((folder / "job.toml").read_bytes())
    return held_out


def write_parties(folder: Path, people: People, rows: Rows, *, budget: float, above: str = "") -> None:
    for place, (party, columns) in enumerate(people.parties.items()):
        label = place == 0
        people.write_csv(folder / f"{party}.csv", [*columns, *([people.label] if label else [])], rows)
        terms = (people.dataset, people.delta)
        own = party_text(party, f"{party}.csv", budget, *terms, public=True, above=above)
        (folder / f"{party}.toml").write_text(own, encoding="utf-8")
        if not above:
            schema = people.schema_text(columns, label=label)
            (folder / f"{party}.schema.toml").write_text(schema, encoding="utf-8")
