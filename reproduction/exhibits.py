"""Every table and figure of the papers that shows a result, and how much of it was run again.

A cell is one setting that a table has a number for, or a figure a point or a curve: a data set, a method, an ε. Where a
figure's settings are not printed beside it, those that the text or a table names for it are counted. A cell counts as
run if the page has a result at that setting, also where rows or epochs are fewer than the paper's; then `reason` says
how many. What was left out because of the machine is a forecast: how long it would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from reproduction.sections import load, said

State = Literal["run", "forecast", "not at hand"]


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure: the study it belongs to, its name and data, its cells, and where its results are."""

    study: str
    name: str
    shows: str
    state: State
    printed: int
    run: int = 0
    section: str = ""
    """The title of its section on the page."""
    reason: str = ""
    """Why not all of it was run, or what differs."""
    ahead: tuple[str, ...] = ()
    """What of `left_out` it would still take, by key."""

    @property
    def at_hand(self) -> bool:
        """Whether its data can be had here."""
        return self.state != "not at hand"

    def line(self) -> str:
        """One line for people."""
        cells = f"{self.run} of {self.printed} cells"
        where = f"; page: {self.section}" if self.section else ""
        left = f". As published: {said(self.seconds)} more of one processor" if self.ahead else ""
        return f"{self.study}, {self.name} ({self.shows}): {self.state}, {cells}{where}" + (
            f". {self.reason}{left}" if self.reason else left
        )

    @property
    def seconds(self) -> float:
        """How many seconds of one processor the rest of it would take, where that was foretold."""
        foretold = {
            key: float(seconds)
            for section in load("left_out") or []
            for key, seconds in section.facts["seconds"].items()
        }
        return sum(foretold[key] for key in self.ahead)


_FUNCTIONAL, _SKELLAM, _MESSAGES, _LOGISTIC, _BINOMIAL = (
    "functional_mechanism",
    "skellam",
    "private_messages",
    "vertical_logistic",
    "poisson_binomial",
)
_PUBLISHED = "curves over ε are drawn without numbers; the values of ε are those of the paper's tables"
_ENCRYPTED = ("encryption, Credit", "encryption, Adult")
_TWIN = (
    "training under encryption was run on Breast; on Credit and Adult its accuracy is a forecast, that of its twin in "
    "the clear"
)
_TRIALS = "b = 128 in the place of 32"

EXHIBITS = (
    Exhibit(
        *(_FUNCTIONAL, "Table I", "error of linear regression, US and Brazil"),
        state="not at hand",
        printed=20,
        section="Table I, and the other half of Table III: not run",
        reason="the samples of IPUMS International may not be passed on",
    ),
    Exhibit(
        *(_FUNCTIONAL, "Table II", "error of linear regression, made-up rows"),
        state="run",
        printed=15,
        run=9,
        section="Table II: error of linear regression on synthetic data",
        reason="the multiparty Frank-Wolfe of six cells is not described well enough to be run",
    ),
    Exhibit(
        *(_FUNCTIONAL, "Table III", "accuracy of logistic regression, Adult"),
        state="run",
        printed=7,
        run=7,
        section="Table III: accuracy of logistic regression on Adult",
    ),
    Exhibit(
        *(_FUNCTIONAL, "Table III", "accuracy of logistic regression, Dutch census"),
        state="not at hand",
        printed=7,
        section="Table I, and the other half of Table III: not run",
        reason="the Dutch census of 2001 is not among the sets that the page is made from",
    ),
    Exhibit(
        *(_FUNCTIONAL, "Table IV", "seconds of one training, four sets"),
        state="run",
        printed=12,
        run=12,
        section="Table IV: seconds for one training",
        reason="rows are made up in each set's size",
    ),
    *(
        Exhibit(
            *(_SKELLAM, name, shows),
            state="run",
            printed=cells,
            run=cells,
            section="Tables 1 to 3: what a client learns",
        )
        for name, shows, cells in (
            ("Table 1", "a client's ε, KDDCUP", 28),
            ("Table 2", "a client's ε, ACSIncome", 28),
            ("Table 3", "a client's ε, logistic regression", 12),
        )
    ),
    Exhibit(
        *(_SKELLAM, "Figure 1", "principal components, KDDCUP"),
        state="run",
        printed=35,
        run=35,
        section="The shape of Figure 1: KDDCUP99",
        reason=f"one run of twenty; {_PUBLISHED}",
    ),
    Exhibit(
        *(_SKELLAM, "Figure 1", "principal components, CiteSeer"),
        state="run",
        printed=35,
        run=35,
        section="The shape of Figure 1: CiteSeer",
        reason=f"all 3,312 papers instead of 2,110, and one run of twenty; {_PUBLISHED}",
    ),
    *(
        Exhibit(
            *(_SKELLAM, "Figure 1", f"principal components, {name}"),
            state="not at hand",
            printed=35,
            section="Not run",
            reason=f"{name} is not among the sets that the page is made from",
        )
        for name in ("ACSIncome of California", "Gene")
    ),
    Exhibit(
        *(_SKELLAM, "Figure 2", "rows along two directions, KDDCUP"),
        state="run",
        printed=3,
        run=3,
        section="In the place of Figure 2",
    ),
    Exhibit(
        *(_SKELLAM, "Figure 3", "logistic regression, ACSIncome of Texas and New York"),
        state="run",
        printed=60,
        run=34,
        section="The shape of Figure 3: logistic regression on ACSIncome",
        reason="the finer two of three grids need noise that no sampler here draws, and at ε = 8 the cost to parties "
        "cannot be stated; one run of ten",
    ),
    Exhibit(
        *(_SKELLAM, "Figure 3", "logistic regression, California, Florida, and ACSEmployment"),
        state="not at hand",
        printed=180,
        section="Not run",
        reason="these sets are not among those that the page is made from; of Florida there is a part",
    ),
    Exhibit(
        *(_MESSAGES, "Figure 1", "accuracy over ε up to 10, three sets"),
        state="run",
        printed=27,
        run=25,
        section="Figures 1 and 4: accuracy over ε",
        reason=_TWIN,
        ahead=_ENCRYPTED,
    ),
    Exhibit(
        *(_MESSAGES, "Figure 2", "epochs and radius, Breast"),
        state="run",
        printed=30,
        run=30,
        section="Figure 2: epochs and radius",
    ),
    Exhibit(
        *(_MESSAGES, "Figure 3", "seconds over epochs and people"),
        state="run",
        printed=24,
        run=24,
        section="Figure 3: seconds",
    ),
    Exhibit(
        *(_MESSAGES, "Figure 4", "accuracy over ε up to 1,000, three sets"),
        state="run",
        printed=33,
        run=31,
        section="Figures 1 and 4: accuracy over ε",
        reason=_TWIN,
        ahead=_ENCRYPTED,
    ),
    Exhibit(
        *(_LOGISTIC, "Figure 2", "accuracy with and without noise, MNIST 0/1"),
        state="run",
        printed=4,
        run=4,
        section="MNIST 0/1: reading labels, and what noise does",
    ),
    Exhibit(
        *(_LOGISTIC, "Figure 3", "labels read and norms, MNIST 0/1"),
        state="run",
        printed=8,
        run=8,
        section="MNIST 0/1: reading labels, and what noise does",
        reason="under ciphertexts 1,024 of 12,665 digits; the rest in the clear",
        ahead=("every digit",),
    ),
    Exhibit(
        *(_LOGISTIC, "Figure 4", "two initialisations, default credit"),
        state="run",
        printed=8,
        run=5,
        section="default credit: reading labels, and what noise does",
        reason="noise with one initialisation alone",
    ),
    Exhibit(
        *(_BINOMIAL, "Table 1", "bytes to a target, CIFAR-10"),
        state="forecast",
        printed=13,
        section="Not run",
        reason="thirteen settings of hundreds of epochs of ResNet-18 each; a fifth of the images is at hand",
        ahead=("ResNet-18 on CIFAR-10",) * 13,
    ),
    Exhibit(
        *(_BINOMIAL, "Table 2", "epochs to a target, Activity"),
        state="run",
        printed=17,
        run=17,
        section="Activity: Table 2",
        reason="features of our own from the test split's signals, at most 60 epochs, one run",
    ),
    Exhibit(
        *(_BINOMIAL, "Table 3", "epochs to a target, phishing"),
        state="run",
        printed=17,
        run=13,
        section="Phishing, five and ten parties",
        reason=f"the table is a picture in the copy that was read, so that ours stands alone; {_TRIALS}",
    ),
    Exhibit(
        *(_BINOMIAL, "Figure 2", "accuracy by epoch, CIFAR-10"),
        state="run",
        printed=14,
        run=14,
        section="Images in quadrants",
        reason="10,000 of 50,000 images, dense networks in the place of ResNet-18, 44 of 600 epochs, two runs",
    ),
    Exhibit(
        *(_BINOMIAL, "Figure 2", "accuracy by epoch, Activity with five and ten parties"),
        state="not at hand",
        printed=12,
        section="Not run",
        reason="the published features are not at hand",
    ),
    *(
        Exhibit(
            *(_BINOMIAL, name, f"accuracy by epoch, {data}"),
            state="not at hand",
            printed=cells,
            section="Not run",
            reason=f"{data} is not at hand",
        )
        for name, data, cells in (
            ("Figure 3", "ModelNet-10", 25),
            ("Figure 5", "ImageNet", 10),
            ("Figure 7", "ModelNet-10", 14),
        )
    ),
    Exhibit(
        *(_BINOMIAL, "Figure 4", "AUPRC by epoch, phishing, ten parties"),
        state="run",
        printed=25,
        run=21,
        section="Phishing, five and ten parties",
        reason=_TRIALS,
    ),
    Exhibit(
        *(_BINOMIAL, "Figure 6", "AUPRC by epoch, phishing, five and ten parties"),
        state="run",
        printed=14,
        run=12,
        section="Phishing, five and ten parties",
        reason=_TRIALS,
    ),
)
"""Figures and tables that show no result (a framework, a list of data sets, a list of distributions) are left out."""


def listing(exhibits: Sequence[Exhibit] = EXHIBITS) -> dict[str, Any]:
    """All of them as plain values, and the share of cells that were run of those whose data is at hand."""
    here = [exhibit for exhibit in exhibits if exhibit.at_hand]
    printed, run = sum(exhibit.printed for exhibit in here), sum(exhibit.run for exhibit in here)
    return {
        "exhibits": [asdict(exhibit) | {"seconds": exhibit.seconds} for exhibit in exhibits],
        "cells_printed": printed,
        "cells_run": run,
        "cells_run_of_printed": round(run / printed, 3),
    }
