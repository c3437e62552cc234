"""What two cores did not run of the papers, and how long it would take, in proportion to what was run of the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

import torch

from colonnade.methods.network.modules import ResNet18
from reproduction.message_encryption import TITLE as ENCRYPTED
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
was timed for a quarter of a batch. `python -m reproduction.every_digit` runs the digits, and goes on where it stopped.
"""
    table = Table("Not run, and how long it would take", ("what", "one processor"), rows)
    return Section(TITLE, text, (table,), (), watch.seconds, facts={"seconds": found})


def _listed() -> dict[str, Ahead]:
    encrypted = {
        f"encryption, {name}": Ahead(
            f"HDP-VFL, Figures 1 and 4: training under encryption on {name}, 10 epochs, 10 runs",
            partial(_encrypted, name),
        )
        for name in ("Credit", "Adult")
    }
    return encrypted | {
        "every digit": Ahead(
            "Vertical logistic regression, Figure 3: one epoch of all 12,665 digits 0 and 1 under ciphertexts, without "
            "a defence and with the sound one, read by the attacker",
            partial(_kept, "vertical_logistic", "MNIST 0/1: attacks on recorded ciphertexts", 12_665 / 1024),
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


def _encrypted(name: str) -> float:
    """What the section on encryption foretells of a set."""
    return float(_of("private_messages", ENCRYPTED).facts[f"{name}, seconds foretold"])


def _deep(uses: int) -> float:
    """Seconds of four ResNet-18 on so many images, each with a quadrant, forwards and backwards, without noise."""
    torch.set_num_threads(1)
    few = BATCH // 4
    network, images = ResNet18((3, 16, 16), EMBEDDING), torch.rand(few, 3 * 16 * 16)
    start = process_time()
    network(images).sum().backward()
    return 4 * (process_time() - start) * uses / few
