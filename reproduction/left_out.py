"""What two cores did not run of the papers, and how long it would take, in proportion to what was run of the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

import torch

from colonnade.methods.network.modules import ResNet18
from reproduction.sections import Part, Section, Table, load, said, timed
from reproduction.split_networks import EMBEDDING
from reproduction.split_training import BATCH

TITLE = "How long the rest would take"


@dataclass(frozen=True)
class Ahead:
    """Something that was not run: what it is, and how its seconds are foretold."""

    what: str
    seconds: Callable[[], float]


def study(_data: Path, _quick: bool) -> list[Part]:
    """One section; nothing in it reads data."""
    return [Part(TITLE, _section)]


def _section() -> Section:
    with timed() as watch:
        listed = _listed()
        found = {key: round(one.seconds(), 1) for key, one in listed.items()}
    rows = tuple((one.what, said(found[key])) for key, one in listed.items())
    text = """
What is left out above because of the machine, with the time that it would take on one processor of it. Each is in
proportion to what was run of the same and how long that took, in the sections above: people, epochs, settings and runs
each count once, and columns under encryption. Where others used the machine meanwhile, it is an upper figure. ResNet-18
was timed for a quarter of a batch. `python -m reproduction --full` runs the grid on phishing,
`python -m reproduction.every_digit` the digits; they go on where they stopped.
"""
    table = Table("Not run, and how long it would take", ("what", "one processor"), rows)
    return Section(TITLE, text, (table,), (), watch.seconds, facts={"seconds": found})


def _listed() -> dict[str, Ahead]:
    encrypted = {
        f"encryption, {epochs} epochs": Ahead(
            f"HDP-VFL, Figure 3: training under encryption, 10,000 people, {epochs} epochs",
            partial(_encrypted, 10_000 * epochs),
        )
        for epochs in (4, 10)
    } | {
        f"encryption, {people} people": Ahead(
            f"HDP-VFL, Figure 3: training under encryption, {people:,} people, one epoch",
            partial(_encrypted, people),
        )
        for people in (40_000, 100_000)
    }
    encrypted |= {
        f"encryption, {name}": Ahead(
            f"HDP-VFL, Figures 1 and 4: training under encryption on {name}, 10 epochs, 10 runs",
            partial(_encrypted, 100 * people, columns=columns),
        )
        for name, columns, people in (("Breast", 30, 455), ("Credit", 23, 24_000), ("Adult", 46, 36_178))
    }
    return encrypted | {
        "every digit": Ahead(
            "Vertical logistic regression, Figure 3: one epoch of all 12,665 digits 0 and 1 under ciphertexts, without "
            "a defence and with the sound one, read by the attacker",
            partial(_kept, "vertical_logistic", "MNIST 0/1: attacks on recorded ciphertexts", 12_665 / 1024),
        ),
        "phishing grid": Ahead(
            "PBM-VFL, Figures 4 and 6 and Table 3: the whole grid on phishing with 5 and with 10 parties, 100 epochs "
            "and three runs of each",
            # 40 epochs with five and 20 with ten were run, once.
            partial(
                _kept,
                "poisson_binomial",
                "Phishing, five and ten parties",
                300 * (5 + 10) / (40 * 5 + 20 * 10),
            ),
        ),
        "ResNet-18 on CIFAR-10": Ahead(
            "PBM-VFL, Table 1 and Figure 2: one setting as published, ResNet-18, 50,000 images, 600 epochs",
            partial(_deep, 50_000 * 600),
        ),
    }


def _of(study: str, title: str) -> Section:
    (section,) = (section for section in load(study) or [] if section.title == title)
    return section


def _kept(study: str, title: str, times: float) -> float:
    """So many times as long as a section took."""
    return times * _of(study, title).seconds


def _encrypted(uses: int, *, columns: int = 24) -> float:
    """Seconds under encryption for so many people times epochs; 24 columns were run."""
    facts: Mapping[str, float] = _of("private_messages", "Figure 3: seconds").facts
    run: dict[int, float] = {}
    for key, seconds in facts.items():
        found = re.fullmatch(r"encrypted (\d+) (\d+)", key)
        if found:
            run[int(found[1]) * int(found[2])] = seconds
    return uses * sum(run.values()) / sum(run) * columns / 24


def _deep(uses: int) -> float:
    """Seconds of four ResNet-18 on so many images, each with a quadrant, forwards and backwards, without noise."""
    torch.set_num_threads(1)
    few = BATCH // 4
    network, images = ResNet18((3, 16, 16), EMBEDDING), torch.rand(few, 3 * 16 * 16)
    start = process_time()
    network(images).sum().backward()
    return 4 * (process_time() - start) * uses / few
