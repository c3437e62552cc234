"""Every logistic method on Adult between two organisations, through the real `colonnade compare`.

Each method is a comparison of its own, kept under `reproduction/results/adult` as soon as it is done, so that an
interruption loses one. `python -m reproduction.adult` draws the picture and writes the section from what is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.public_data import adult
from colonnade.report.comparison import comparison_table, promise_section, remarks_on
from colonnade.report.record import ComparisonRecord
from reproduction.adult_files import write_adult
from reproduction.adult_picture import picture
from reproduction.functional_mechanism import made_up_adult
from reproduction.sections import RESULTS, Part, Section, Table, save, timed

KEPT = RESULTS / "adult"
PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "all-methods-adult.svg"
EPSILONS = (0.1, 0.5, 1.0, 4.0, 10.0)


@dataclass(frozen=True)
class Entry:
    """One method, what is chosen about it, and on how many splits; `apart` makes each ε a comparison of its own."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    splits: int = 3
    apart: bool = False

    def runs(self) -> list[tuple[str, tuple[float, ...]]]:
        """Names of what is kept, and the ε in each."""
        if not self.apart:
            return [(self.method, EPSILONS)]
        return [(f"{self.method}-{epsilon:g}", (epsilon,)) for epsilon in EPSILONS]


ENTRIES = (
    Entry("margin"),
    Entry("moments"),
    Entry("functional"),
    # With batches of a tenth, the default, the parties' cost at ε = 10 cannot be stated; with half of the people it
    # can, and it is smaller at every ε. At ε = 0.1 that much noise needs the coarser grid.
    Entry("slr", {"rate": 0.5, "epochs": 30.0, "gamma": 512}),
    Entry("network"),
    Entry("private-messages"),
    # Minutes of encryption for each training: fewer epochs, one split, a comparison for each ε.
    Entry("encrypted", {"epochs": 2}, splits=1, apart=True),
    Entry("non-private"),
)


def study(data: Path, quick: bool) -> list[Part]:
    """One section: the picture of the README and its numbers."""
    return [Part("Every logistic method, by `colonnade compare`", lambda: _section(data, quick))]


def _section(data: Path, quick: bool) -> Section:
    people = made_up_adult(400) if quick else adult(data)
    entries = (replace(ENTRIES[0], splits=1),) if quick else ENTRIES
    with tempfile.TemporaryDirectory() as folder, timed() as watch:
        place = Path(folder)
        jobs = write_adult(place / "adult", people, {entry.method: entry.options for entry in entries})
        kept = place / "kept" if quick else KEPT
        for entry in entries:
            for name, epsilons in entry.runs():
                requested = (1.0,) if quick else epsilons
                _compare(jobs[entry.method], entry, requested, place / name, kept / f"{name}.json")
        facts = joined(kept)
    if not quick:
        PICTURE.write_text(picture(facts), encoding="utf-8")
    return section_of(facts, watch.seconds)


def section_of(facts: dict[str, Any], seconds: float) -> Section:
    """The numbers behind the picture."""
    record = ComparisonRecord.model_validate(facts)
    table = comparison_table(record)
    promised = tuple(promise_section(record).table[1:])
    return Section(
        "Every logistic method, by `colonnade compare`",
        f"The picture of the README is drawn from these numbers.\n\n{remarks(facts)}",
        (
            Table("Accuracy on held-out people, mean ± standard deviation", table[0], tuple(table[1:])),
            Table("What observers learn at most at ε = 1", ("method", "observer and ε"), promised),
        ),
        seconds=seconds,
        command="python -m reproduction --only adult",
    )


def _compare(job: Path, entry: Entry, epsilons: tuple[float, ...], folder: Path, kept: Path) -> None:
    """Run the command a user would run, and keep its facts."""
    command = Path(sys.executable).with_name("colonnade")
    subprocess.run(
        [
            *(str(command), "compare", str(job), "--methods", entry.method),
            *("--epsilons", ",".join(f"{epsilon:g}" for epsilon in epsilons)),
            *("--seeds", str(entry.splits), "--output", str(folder), "--json"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    kept.parent.mkdir(parents=True, exist_ok=True)
    facts = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    kept.write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")


def joined(folder: Path) -> dict[str, Any]:
    """The kept comparisons as one, in the order of `ENTRIES`; each row says on how many splits it stands."""
    found: dict[str, Any] = {}
    rows: list[Any] = []
    for entry in ENTRIES:
        for name, _ in entry.runs():
            path = folder / f"{name}.json"
            if not path.exists():
                continue
            facts = json.loads(path.read_text(encoding="utf-8"))
            rows += [row | {"splits": facts["seeds"]} for row in facts["rows"]]
            found = facts if not found or facts["seeds"] > found["seeds"] else found
    return found | {"epsilons": list(EPSILONS), "rows": rows}


def remarks(facts: dict[str, Any]) -> str:
    """What is to be known about the numbers."""
    chosen = [
        f"`{entry.method}` with " + ", ".join(f"`{key} = {value:g}`" for key, value in entry.options.items())
        for entry in ENTRIES
        if entry.options
    ]
    fewer = [f"`{entry.method}` ({entry.splits})" for entry in ENTRIES if entry.splits != facts["seeds"]]
    lines = [
        f"{facts['trained_on']:,} people to train on, {facts['held_out']:,} others to score, {facts['seeds']} splits, "
        f"δ = {facts['delta']:g}; fewer splits: {', '.join(fewer) or 'none'}. A split moves every method by about "
        "half a point, all of them together.",
        f"Defaults, but for {' and '.join(chosen)}.",
        *remarks_on(ComparisonRecord.model_validate(facts | {"constant": None})),
        f"Always answering the commonest class scores {facts['constant']:.4f}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def main() -> None:
    """Draw the picture, keep the section and print it, from the comparisons that are kept."""
    facts = joined(KEPT)
    PICTURE.write_text(picture(facts), encoding="utf-8")
    trained = sum(row["seconds"] * row["splits"] for row in facts["rows"])
    section = section_of(facts, trained)
    save("adult", [section])
    sys.stdout.write(f"{section.markdown()}\n{PICTURE}\n")


if __name__ == "__main__":
    main()
