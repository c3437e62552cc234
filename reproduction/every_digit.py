"""The attack on labels under real ciphertexts, for every digit 0 and 1 of MNIST: hours, a thousand digits at a time.

    nice python -m reproduction.every_digit --data FOLDER

goes on where it stopped, beside whatever else runs; the section of the page is made when all of them are there.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.lab.attacks import Success, recover_labels
from colonnade.lab.campaign import recorded
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.protocols.paillier import PaillierKeys, PaillierKeysForTests
from colonnade.protocols.plans import options_of
from colonnade.randomness import public_permutation
from reproduction.logistic_sets import LogisticSet, mnist, request_of
from reproduction.sections import Pieces, Section, Table, timed

TITLE = "MNIST 0/1: every digit under ciphertexts"
KEPT = Path("build/every_digit.json")
AT_ONCE = 1024


def section(
    one: LogisticSet,
    keys: PaillierKeys | PaillierKeysForTests,
    *,
    kept: Path | None = KEPT,
    at_once: int = AT_ONCE,
    announced: bool = False,
) -> Section:
    """Labels read by the party without them, of all people, with no defence and with a sound one."""
    order = public_permutation(one.rows, seed=4)
    groups = [order[start : start + at_once] for start in range(0, one.rows, at_once)]
    pieces, found = Pieces(kept), dict[str, list[dict[str, float]]]()
    with timed() as watch:
        for number, people in enumerate(groups):
            for defence in ("none", "sound"):
                if announced:
                    sys.stdout.write(f"{number + 1} of {len(groups)}, defence {defence}\n")
                    sys.stdout.flush()
                name = f"{one.name}, {keys.bits}, {at_once}, {number}, {defence}"
                piece = pieces.get(name, partial(_attacked, one, people, defence, keys))
                found.setdefault(defence, []).append(piece)
    rows = []
    for defence, each in found.items():
        success = Success(
            sum(piece["right"] for piece in each),
            sum(int(piece["people"]) for piece in each),
            float(
                np.average([piece["chance"] for piece in each], weights=[piece["people"] for piece in each])
            ),
        )
        low, high = success.interval
        seconds = sum(piece["seconds"] for piece in each)
        rows.append(
            (
                defence,
                f"{success.rate:.4f}",
                f"{low:.4f} to {high:.4f}",
                f"{success.chance:.4f}",
                f"{seconds:.0f} s",
            )
        )
    batch = options_of(request_of(one), EncryptedOptions).batch
    text = f"""
The attack above on all {one.rows:,} people, {len(groups)} runs of at most {at_once:,} of them: one epoch each by the
protocol itself, keys of {keys.bits} bits, batches of {batch}, zero initialisation; the attacker works
on what it received.
"""
    head = ("defence", "labels read right", "95 % interval", "by chance", "time of all runs")
    return Section(
        TITLE, text, (Table("Labels read in the first epoch", head, tuple(rows)),), (), watch.seconds
    )


def _attacked(
    one: LogisticSet, people: Any, defence: str, keys: PaillierKeys | PaillierKeysForTests
) -> dict[str, float]:
    tables = {party: table.take(people) for party, table in one.tables.items()}
    attacker = next(party for party, table in tables.items() if table.schema.label is None)
    request = request_of(
        one,
        epochs=1,
        keys=keys,
        defence=defence,
        batch=min(options_of(request_of(one), EncryptedOptions).batch or len(people), len(people)),
    )
    with timed() as watch:
        transcript, _ = recorded(tables, request)
        success = recover_labels(transcript.view(attacker), transcript.labels).by_epoch[0]
    return {
        "right": float(success.hits),
        "people": success.trials,
        "chance": success.chance,
        "seconds": watch.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction.every_digit", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("COLONNADE_DATA") or "."))
    section(mnist(parser.parse_args().data), PaillierKeys(), announced=True)


if __name__ == "__main__":
    main()
