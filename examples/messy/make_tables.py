"""Two tables about the same people as two organisations would really have them: nothing in them is about anybody.

A bank's export has a semicolon between fields, a byte order mark, ids in capitals, gaps and one impossible age. A
clinic's export is another system's: ids in small letters with blanks around them, another order, other people. A
third file has a few people who come later, about whom somebody knows every column.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

PEOPLE = 4000
JOBS = ("Office", "trade", "CARE", "none")
LATER = ["n-1,34,41000,office,1,no", "n-2,71,18500,trade,12,yes", "n-3,52,27000,care,4,"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="where the files go")
    folder = parser.parse_args().folder
    dice = random.Random("a public seed")
    bank, clinic = [], []
    for number in range(PEOPLE):
        age, income = dice.uniform(20, 80), math.exp(dice.gauss(10.2, 0.5))
        visits, smoker = min(int(dice.expovariate(0.25 + 4 / age)), 30), dice.random() < 0.3
        job = dice.choice(JOBS)
        risk = 0.06 * (age - 50) + 0.25 * (visits - 3) + 1.2 * smoker - 0.9 * (income > 30000)
        claims = "yes" if risk + dice.gauss(0, 1) > 0 else "no"
        if dice.random() > 0.03:
            # A field is empty now and then, and somebody typed an age of 199.
            typed = "" if dice.random() < 0.02 else "199" if number == 7 else f"{age:.0f}"
            earned = "" if dice.random() < 0.05 else f"{income:.2f}"
            bank.append(f"K-{number:05d};{typed};{earned};{job};{claims}")
        if dice.random() > 0.05:
            announced = "" if dice.random() < 0.04 else "yes" if smoker else "no"
            clinic.append(f" k-{number:05d} ,{visits},{announced}")
    dice.shuffle(clinic)
    write(folder / "bank.csv", ["Customer;Age;Income;Job;Claims", *bank], encoding="utf-8-sig")
    write(folder / "clinic.csv", ["patient_id,visits,smoker", *clinic], encoding="utf-8")
    write(folder / "new-people.csv", ["person,Age,Income,Job,visits,smoker", *LATER], encoding="utf-8")


def write(path: Path, lines: list[str], *, encoding: str) -> None:
    path.write_text("\n".join(lines) + "\n", encoding=encoding)


if __name__ == "__main__":
    main()
