"""The table of studies, in the order of the page: a module of this folder each, and the paper it is about."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reproduction.sections import Part


@dataclass(frozen=True)
class Study:
    """One paper, or one question of our own: the module that runs its study, its title and its page in `docs`."""

    name: str
    title: str
    page: str = "reproduction.md"

    @property
    def exists(self) -> bool:
        """Whether its module is in this folder."""
        return importlib.util.find_spec(f"reproduction.{self.name}") is not None

    @property
    def command(self) -> str:
        """What runs it alone."""
        return f"python -m reproduction --only {self.name}"

    def parts(self, data: Path, *, quick: bool) -> list[Part]:
        """Its sections, to be run. `quick` is for a test of the frame: tiny, on made-up data where it can be."""
        study: Callable[[Path, bool], list[Part]] = importlib.import_module(f"reproduction.{self.name}").study
        return study(data, quick)


STUDIES = (
    Study(
        "functional_mechanism",
        "Achieving Differential Privacy in Vertically Partitioned Multiparty Learning (functional mechanism)",
    ),
    Study("skellam", "SPCA and SLR: Skellam noise in BGW"),
    Study("private_messages", "HDP-VFL: private intermediate results"),
    Study("vertical_logistic", "Is Vertical Logistic Regression Privacy-Preserving?"),
    Study("poisson_binomial", "PBM-VFL: the Poisson binomial mechanism"),
    Study("left_out", "What was left out"),
    Study("all_methods", "Every method on several data sets"),
    Study("adult", "Every logistic method on Adult, as the README shows it"),
    Study("what_to_expect", "What to expect", "plan.md"),
    Study("scale", "Scale", "scale.md"),
)
