"""A hospital with a DuckDB file and an insurer with a SQLite file learn who comes back within a month.

Neither exports anything: each table is a query on its own database, opened for reading only. Ids are spelt differently
and only some people are known to both, so the parties find their common people first, by private set intersection.

Look at: how many people are common to both; what the insurer's own log says of clipped values, which nobody else
sees; and the sentences at the end, one for each observer. The people are made up.
"""

import random
import sqlite3
from pathlib import Path

import duckdb

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.data.sources import DuckDBSource, SQLiteSource

HOSPITAL = """
id = {column = "patient", case = "upper"}
columns.age = {kind = "numeric", low = 0, high = 100}
columns.days = {kind = "numeric", low = 0, high = 30}
columns.ward = {kind = "categorical", categories = ["heart", "lungs", "other"], other = "other"}
label = {column = "back", kind = "classes", classes = ["no", "yes"]}
"""
INSURER = """
id = {column = "member", case = "upper"}
columns.claims = {kind = "numeric", low = 0, high = 20}
columns.lives_alone = {kind = "binary", values = [0, 1]}
"""


def write_databases(folder: Path) -> None:
    """Two organisations' databases about overlapping people, as each would have had them anyway."""
    dice = random.Random(1)
    stays, members = [], []
    for number in range(6000):
        age, days, claims = dice.uniform(20, 95), dice.uniform(0, 25), dice.expovariate(0.3)
        ward, alone = dice.choice(["heart", "lungs", "skin", "bones"]), dice.random() < 0.4
        risk = 0.04 * (age - 60) + 0.08 * (days - 8) + 0.3 * (claims - 3) + 0.8 * alone
        if dice.random() < 0.9:
            back = "yes" if risk + dice.gauss(0, 1) > 0 else "no"
            stays.append((f"p-{number:05d}", age, days, ward, back))
        if dice.random() < 0.8:
            members.append((f"P-{number:05d}", claims, int(alone)))
    dice.shuffle(members)
    with duckdb.connect(str(folder / "hospital.duckdb")) as hospital:
        hospital.execute(
            "create table stays (patient varchar, age double, days double, ward varchar, back varchar)"
        )
        hospital.execute("begin")
        hospital.executemany("insert into stays values (?, ?, ?, ?, ?)", stays)
        hospital.execute("commit")
    insurer = sqlite3.connect(folder / "insurer.sqlite")
    with insurer:
        insurer.execute("create table members (member text, claims real, lives_alone integer)")
        insurer.executemany("insert into members values (?, ?, ?)", members)
    insurer.close()


def main() -> None:
    folder = Path()
    write_databases(folder)

    # At the hospital.
    stays = DuckDBSource("select * from stays", folder / "hospital.duckdb")
    hospital = Table("hospital", stays, Schema.parse(HOSPITAL)).check()
    # At the insurer.
    members = SQLiteSource("select * from members where claims is not null", folder / "insurer.sqlite")
    insurer = Table("insurer", members, Schema.parse(INSURER)).check()

    # Both of them and a server without data; here in one process, between machines by the same protocol.
    federation = Federation([hospital, insurer], budget=(1.5, 1e-6))
    model = LogisticRegression(epsilon=1.0, delta=1e-6, method="moments").fit(federation)

    print(
        f"hospital has {hospital.rows:,} people, insurer {insurer.rows:,}, both {federation.runs[0].plan.rows:,}"
    )
    print(f"for the insurer's eyes: {insurer.clipping}")
    people = {
        "age": [30, 85],
        "days": [2, 20],
        "ward": ["skin", "heart"],
        "claims": [1, 9],
        "lives_alone": [0, 1],
    }
    for person, chance in enumerate(model.predict_proba(people)[:, 1], start=1):
        print(f"person {person} comes back with probability {chance:.2f}")
    print(model.privacy_)


if __name__ == "__main__":
    main()
