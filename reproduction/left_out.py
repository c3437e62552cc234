"""What two cores did not run of the papers, and how long it would take: by `plan`, or at the rate of a short run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from colonnade.data.columns import NumericColumn
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.targets import ClassLabel
from colonnade.forecast.pilot_run import Rehearsals
from colonnade.methods.method import Asked
from colonnade.methods.network.modules import ResNet18
from colonnade.methods.table import checked_options, protocol_named
from colonnade.runtime.group import Group
from reproduction.poisson_binomial_phishing import BETAS, TRIALS
from reproduction.sections import Part, Section, Table, load, said, timed
from reproduction.split_grid import Runs
from reproduction.split_training import BATCH, EMBEDDING, Data, Setting, Trainer

TITLE = "How long the rest would take"
GRID = (
    Setting("npq"),
    *(Setting("pbm", trials, beta) for trials in TRIALS for beta in BETAS),
    *(Setting("ldp", 16, beta, matched) for beta in BETAS for matched in (False, True)),
)
IMAGES = (
    Setting("npq"),
    *(Setting("pbm", trials, beta) for trials, beta in ((4, 0.1), (16, 0.1), (16, 0.15))),
    *(Setting("ldp", trials, beta, matched=True) for trials, beta in ((4, 0.1), (16, 0.1), (16, 0.15))),
)


@dataclass(frozen=True)
class Ahead:
    """Something that was not run: what it is, how its seconds are foretold, and by what."""

    what: str
    by: str
    seconds: Callable[[], float]


def study(_data: Path, quick: bool) -> list[Part]:
    """One section; nothing in it reads data, as time does not depend on what is in rows."""
    listed = _listed()
    if quick:
        listed = {key: listed[key] for key in ("phishing grid", "encryption, 4 epochs")}
    return [Part(TITLE, partial(_section, listed))]


def _section(listed: Mapping[str, Ahead]) -> Section:
    torch.set_num_threads(1)
    with timed() as watch:
        found = {key: round(one.seconds(), 1) for key, one in listed.items()}
    rows = tuple((one.what, said(found[key]), one.by) for key, one in listed.items())
    text = """
What is left out above because of the machine, with the time that it would take on one processor of it with nothing else
to do. *plan* is the forecast that `colonnade plan` makes, from short runs of the same protocol by the same plan, keys
and noise included; *rate* is as many steps as it would take, at the rate of a few of them; *line* is proportional to
what was run of the same. The programs are there, and those of hours go on where they stopped.
"""
    table = Table("Not run, and how long it would take", ("what", "one processor", "by"), rows)
    return Section(TITLE, text, (table,), (), watch.seconds, facts={"seconds": found})


def _listed() -> dict[str, Ahead]:
    line = {
        f"encryption, {epochs} epochs": Ahead(
            f"HDP-VFL, Figure 3: training under encryption, 10,000 people, {epochs} epochs",
            "line",
            partial(_on_line, 10_000 * epochs),
        )
        for epochs in (4, 10)
    } | {
        f"encryption, {people} people": Ahead(
            f"HDP-VFL, Figure 3: training under encryption, {people:,} people, one epoch",
            "line",
            partial(_on_line, people),
        )
        for people in (40_000, 100_000)
    }
    plans = {
        f"encryption, {name}": Ahead(
            f"HDP-VFL, Figures 1 and 4: training under encryption on {name}, 10 epochs, 10 runs",
            "plan",
            partial(_planned, "encrypted", widths, people, {"epochs": 10}, runs=10, rehearsed=5),
        )
        for name, widths, people in (
            ("Breast", (10, 20), 455),
            ("Credit", (13, 10), 24_000),
            ("Adult", (23, 23), 36_178),
        )
    }
    plans["every digit"] = Ahead(
        "Vertical logistic regression, Figure 3: one epoch of all 12,665 digits 0 and 1 under ciphertexts, with the "
        "sound defence; without it about twice as long",
        "plan",
        partial(_planned, "encrypted", (392, 392), 12_665, {"epochs": 1}),
    )
    return (
        line
        | plans
        | {
            "phishing grid": Ahead(
                f"PBM-VFL, Figures 4 and 6 and Table 3: all {len(GRID)} settings on phishing with 5 and with 10 "
                "parties, 100 epochs, three runs",
                "rate",
                lambda: sum(_dense(parties, rows=8_844, epochs=100, runs=3) for parties in (5, 10)),
            ),
            "every image of MNIST": Ahead(
                f"PBM-VFL: {len(IMAGES)} settings on all 60,000 digits of MNIST in quadrants, a small network, "
                "30 epochs, two runs",
                "rate",
                partial(_convolved, (1, 14, 14), rows=60_000, epochs=30, runs=2),
            ),
            "images of CIFAR-10 at hand": Ahead(
                f"PBM-VFL, Figure 2: {len(IMAGES)} settings on the 10,000 training images of CIFAR-10 at hand, a small "
                "network, 100 epochs, two runs",
                "rate",
                partial(_convolved, (3, 16, 16), rows=10_000, epochs=100, runs=2),
            ),
            "ResNet-18 on CIFAR-10": Ahead(
                "PBM-VFL, Table 1 and Figure 2: one setting as published, ResNet-18, 50,000 images, 600 epochs",
                "rate",
                partial(_deep, rows=50_000, epochs=600),
            ),
        }
    )


def _on_line(uses: int) -> float:
    """Seconds of training under encryption for so many people times epochs, proportional to what was run of it."""
    (facts,) = (
        section.facts for section in load("private_messages") or [] if section.title == "Figure 3: seconds"
    )
    run = {
        int(people) * int(epochs): float(seconds)
        for key, seconds in facts.items()
        for method, people, epochs in [key.split()]
        if method == "encrypted"
    }
    return uses * sum(run.values()) / sum(run)


def _planned(
    method: str,
    widths: Sequence[int],
    people: int,
    options: Mapping[str, Any],
    *,
    runs: int = 1,
    rehearsed: int = 1,
) -> float:
    """Seconds of so many runs between parties with so many numeric columns each, the first with two classes.

    Where keys take as long as a batch, whose making takes as long as chance will have it, the middle of some
    rehearsals says more than one.
    """
    chosen = protocol_named(method)
    schemas: dict[str, PublicSchema] = {}
    for number, width in enumerate(widths):
        owner = f"party{number}"
        columns = tuple(NumericColumn(f"x{number}_{place}", 0, 1) for place in range(width))
        label = ClassLabel("y", ("0", "1")) if number == 0 else None
        schemas[owner] = Schema("row", columns, label).public(owner)
    group = Group.of(tuple(schemas), active="party0")
    asked = Asked("classification", 1.0, 1e-5, 1e-5, options=checked_options(chosen, options))
    plan = chosen.request(asked, "equal", ()).plan(group, tuple(schemas.values()), people)
    rehearsals = Rehearsals(schemas, draws=1, tries=1, weighed=False)
    found = [rehearsals.rehearse(chosen, asked, plan).cost.seconds for _ in range(rehearsed)]
    return runs * median(found)


def _made_up(parties: int, rows: int, numbers: int, classes: int, image: tuple[int, int, int] | None) -> Data:
    generator = np.random.default_rng(0)
    values = torch.from_numpy(generator.random((parties, rows, numbers), dtype=np.float32))
    codes = generator.integers(0, classes, rows)
    return Data(values, codes, values[:, :200], codes[:200], classes, image)


def _dense(parties: int, *, rows: int, epochs: int, runs: int) -> float:
    """Seconds of the grid on phishing, settings of a kind side by side as the study trains them."""
    few = 10 * BATCH
    data = _made_up(parties, few, -(-68 // parties), 2, None)
    total = 0.0
    for kind in ("npq", "pbm", "ldp"):
        settings = [setting for setting in GRID if setting.kind == kind]
        Runs(data, settings, (0,)).epochs(1)  # compiles
        start = process_time()
        Runs(data, settings, (0,)).epochs(1)
        total += (process_time() - start) * rows / few
    return total * epochs * runs


def _convolved(image: tuple[int, int, int], *, rows: int, epochs: int, runs: int) -> float:
    """Seconds of the settings on images in quadrants."""
    few = 3 * BATCH
    data = _made_up(4, few, int(np.prod(image)), 10, image)
    total = 0.0
    for setting in (IMAGES[0], IMAGES[3], IMAGES[-1]):
        trainer = Trainer(data, setting, momentum=0.9)
        trainer.step(torch.arange(BATCH))
        start = process_time()
        for first in range(0, few, BATCH):
            trainer.step(torch.arange(first, first + BATCH))
        share = sum(each.kind == setting.kind for each in IMAGES)
        total += share * (process_time() - start) * rows / few
    return total * epochs * runs


def _deep(*, rows: int, epochs: int) -> float:
    """Seconds of four ResNet-18 on quadrants, forwards and backwards, without noise."""
    network, images = ResNet18((3, 16, 16), EMBEDDING), torch.rand(BATCH, 3 * 16 * 16)
    start = process_time()
    network(images).sum().backward()
    return 4 * (process_time() - start) * rows / BATCH * epochs
