"""The demonstration's many people: whoever a published table counts, and no more than it says of them.

The tables are those of the "Adult" set, 32,561 people of the census bureau's Current Population Survey of 1994 (R.
Kohavi, "Scaling up the accuracy of naive-Bayes classifiers", KDD 1996; UCI Machine Learning Repository): for every
value of a column how many people there are, and how many of them earn more than 50,000 dollars a year. Every count is
met exactly. Within an income the columns are shuffled apart, by a public seed, so that nobody here is a real person,
and the columns say more together than they would of real ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.cli.demo.files import RUNS_GRANTED, TEST_SHARE, Demo, party_text, write_csv
from colonnade.randomness import public_permutation

PEOPLE, RICH = 32_561, 7_841
INCOMES = ("at most 50,000", "above 50,000")
LABEL = "income"
DELTA = 1e-6
FOLDER = "income"
NEW_PEOPLE = "new-people.csv"
# Value: people, and those of them above 50,000. Values of few people are added to a like one, row of the table by row.
Counts = Mapping[str, tuple[int, int]]
REGISTRY: Mapping[str, Counts] = {
    "marital status": {
        "married": (14_976 + 23, 6_692 + 10),
        "never married": (10_683, 491),
        "divorced": (4_443, 463),
        "separated": (1_025 + 418, 66 + 34),
        "widowed": (993, 85),
    },
    "sex": {"female": (10_771, 1_179), "male": (21_790, 6_662)},
    "education": {
        "no diploma": (1_175 + 933 + 646 + 514 + 433 + 333 + 168 + 51, 60 + 62 + 40 + 27 + 33 + 16 + 6),
        "high school": (10_501, 1_675),
        "some college": (7_291, 1_387),
        "associate": (1_382 + 1_067, 361 + 265),
        "bachelor": (5_355, 2_221),
        "master": (1_723, 959),
        "doctor or professional": (576 + 413, 423 + 306),
    },
}
BANK: Mapping[str, Counts] = {
    "occupation": {
        "professional": (4_140, 1_859),
        "craft and repair": (4_099, 929),
        "management": (4_066, 1_968),
        "clerical": (3_770, 507),
        "sales": (3_650, 983),
        "service": (3_295 + 149, 137 + 1),
        "machine operation": (2_002, 250),
        "not told": (1_843, 191),
        "transport": (1_597, 320),
        "handling and cleaning": (1_370, 86),
        "farming and fishing": (994, 115),
        "technical support": (928, 283),
        "protection": (649 + 9, 211 + 1),
    },
    "employer": {
        "private": (22_696, 4_963),
        "self-employed": (2_541, 724),
        "local government": (2_093, 617),
        "not told": (1_836 + 14 + 7, 191),
        "state government": (1_298, 353),
        "own company": (1_116, 622),
        "federal government": (960, 371),
    },
}
PARTIES: Mapping[str, Mapping[str, Counts]] = {"bank": BANK, "registry": REGISTRY}


def people() -> dict[str, np.ndarray[Any, Any]]:
    """Everybody's columns, each with the counts that are published."""
    values: dict[str, np.ndarray[Any, Any]] = {
        LABEL: np.repeat(np.array(INCOMES, dtype=object), [PEOPLE - RICH, RICH])
    }
    named = {name: counts for columns in PARTIES.values() for name, counts in columns.items()}
    for number, (name, counts) in enumerate(named.items()):
        texts = np.array(list(counts), dtype=object)
        poor, rich = (
            np.repeat(texts, [above if rich else all_of - above for all_of, above in counts.values()])
            for rich in (False, True)
        )
        values[name] = np.concatenate(
            [
                one[public_permutation(len(one), seed)]
                for one, seed in ((poor, 2 * number), (rich, 2 * number + 1))
            ]
        )
    return values


def write_census(folder: Path, *, epsilon: float) -> Demo:
    """Two organisations' files about these people, of whom a fifth is held out."""
    values = people()
    held_out, kept = np.split(public_permutation(PEOPLE, PEOPLE), [round(TEST_SHARE * PEOPLE)])
    folder.mkdir()
    for party, columns in PARTIES.items():
        label = party == "bank"
        names = [*columns, *([LABEL] if label else [])]
        write_csv(folder / f"{party}.csv", names, values, kept, key="person")
        (folder / f"{party}.schema.toml").write_text(_schema(columns, label=label), encoding="utf-8")
        (folder / f"{party}.toml").write_text(
            party_text(
                party,
                RUNS_GRANTED * epsilon,
                dataset="census 1994",
                note="invented from published tables",
                delta=DELTA,
            ),
            encoding="utf-8",
        )
    (folder / "job.toml").write_text(_job(epsilon), encoding="utf-8")
    shown = [name for columns in PARTIES.values() for name in columns]
    write_csv(folder / NEW_PEOPLE, shown, values, held_out, key="person")
    return Demo(
        folder / "job.toml", {name: values[name][held_out] for name in shown}, values[LABEL][held_out]
    )


def _schema(columns: Mapping[str, Counts], *, label: bool) -> str:
    lines = ["# The values that the published tables have.", 'id = "person"', ""]
    for name, counts in columns.items():
        kind, key = ("binary", "values") if len(counts) == 2 else ("categorical", "categories")
        lines += [f'[columns."{name}"]', f'kind = "{kind}"', f"{key} = {list(counts)}", ""]
    if label:
        lines += ["[label]", f'column = "{LABEL}"', 'kind = "classes"', f"classes = {list(INCOMES)}", ""]
    return "\n".join(lines).replace("'", '"')


def _job(epsilon: float) -> str:
    return f"""# What both agreed on.
name = "Income from a bank and a registry"
task = "classification"
method = "moments"
parties = ["bank", "registry"]
active = "bank"
epsilon = {epsilon}
delta = {DELTA:g}
"""
