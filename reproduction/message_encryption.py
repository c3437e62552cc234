"""HDP-VFL's curve under encryption: run where it is quick, otherwise by its twin in the clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from colonnade.data.table import Table as Columns
from colonnade.evaluation.open_rows import HeldOut, split
from colonnade.federation.federation import Federation
from colonnade.lab.comparison import TEST_SHARE
from colonnade.methods.encrypted.method import METHOD, twin
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.method import LinearModel
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness
from reproduction.message_costs import PATIENCE, UNLIMITED
from reproduction.sections import Pieces, Section, Table, said, spread_text, timed

TITLE = "Figures 1 and 4: under encryption"
EPOCHS = 10
MOST = 2000
"""More people than these train for hours."""


def under_encryption(sets: Mapping[str, list[Columns]], *, runs: int, kept: Path | None) -> Section:
    """Accuracy of every set without noise, under encryption and by the twin; a run is kept as soon as it is there."""
    pieces, rows, facts = Pieces(kept), [], {}
    with timed() as watch:
        each = 0.0
        for name, given in sets.items():
            found = [
                pieces.get(f"under encryption, {name}, {seed}", partial(_run, given, seed))
                for seed in range(runs)
            ]
            people, features = found[0]["people"], found[0]["features"]
            clear = spread_text([one["clear"] for one in found], 3)
            took = [one["seconds"] for one in found if one["seconds"] is not None]
            if took:
                # A batch costs in proportion to its people and to the features of both parties.
                each = sum(took) / len(took) / (people * features)
                apart = max(one["apart"] for one in found)
                cell, long = spread_text([one["accuracy"] for one in found], 3), said(sum(took))
                facts[f"{name}, apart"] = apart
            else:
                apart = None
                foretold = runs * each * people * features
                cell, long = f"{clear}, forecast", f"{said(foretold)}, forecast"
                facts[f"{name}, seconds foretold"] = foretold
            rows.append((name, f"{people:,}", cell, clear, "" if apart is None else f"{apart:.1e}", long))
    again = " Runs were kept from before; the seconds below are those of the rest." if pieces.found else ""
    text = f"""
The paper's curve "HE-VFL" of Figures 1 and 4 has no noise and no ε: one number for each set. {EPOCHS} epochs under
Paillier with keys of 2048 bits, batches of 256, no defence, {runs} runs on the splits of the section above. Whoever
follows the protocol learns what its twin learns, which computes the same descent in the clear: the table has the
largest difference of any weight where both were run. The method has no intercept, which costs it most where classes are
unequal and columns are centred, as on Credit. Of the other sets the accuracy under encryption is the twin's, and
the time that of {next(iter(sets))}, in proportion to people and features: both are forecasts and marked as such.{again}
"""
    head = ("set", "people who train", "under encryption", "its twin", "weights apart", "processor, all runs")
    return Section(
        TITLE,
        text,
        (Table("Accuracy on held-out people", head, tuple(rows)),),
        (),
        watch.seconds,
        facts=facts,
    )


def _run(given: Sequence[Columns], seed: int) -> dict[str, float | None]:
    """One split: accuracy of the twin, and under encryption where there are few people."""
    training, testing = split(given, seed=seed, share=TEST_SHARE)
    held_out = HeldOut("classification", testing)
    options = EncryptedOptions(epochs=EPOCHS, defence="none")
    requested = TrainingSpec("classification", 1.0, options=options)
    place = Federation(training, budget=UNLIMITED, public=True, timeout=PATIENCE)
    schemas = tuple(table.public() for table in training)
    owners = place.group.owners
    plan = replace(requested, alignment="equal", public=owners).plan(place.group, schemas, training[0].rows)
    clear = twin(plan, {table.party: table for table in training}, SeededRandomness("no noise is drawn"))
    found: dict[str, float | None] = {
        "people": training[0].rows,
        "features": sum(plan.encoders[owner].width for owner in owners),
        "clear": held_out.score(clear),
        "seconds": None,
    }
    if training[0].rows > MOST:
        return found
    start = process_time()
    trained = METHOD.train(place, requested)
    found["seconds"] = process_time() - start
    if not isinstance(trained, LinearModel) or not isinstance(clear, LinearModel):
        raise TypeError("descents end with linear models")
    found["accuracy"] = held_out.score(trained)
    found["apart"] = float(np.abs(trained.coefficients - clear.coefficients).max())
    return found
