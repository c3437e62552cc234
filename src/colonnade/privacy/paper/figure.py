"""A number that a paper's formula gives, with the reason why it is not a guarantee."""

from __future__ import annotations

from dataclasses import dataclass

LABEL = "paper formula, not a guarantee"


@dataclass(frozen=True)
class PaperFigure:
    """A paper's number, its formula and one sentence on what is wrong with taking it as a guarantee.

    It is not a number on purpose: only `value` can be computed with, and printing it prints the label.
    """

    value: float
    formula: str
    why_not: str

    def __str__(self) -> str:
        return f"{self.formula}: {self.value:.6g} ({LABEL}). {self.why_not}"
