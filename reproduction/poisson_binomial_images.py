"""PBM-VFL on images in quadrants: learning curves without privacy, with PBM and with local noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from time import process_time
from typing import Any

from colonnade.privacy.guarantee import epsilon_text
from colonnade.report.charts import Axes, Chart, Mark, Series, Style, svg
from reproduction.poisson_binomial_costs import true_epsilon
from reproduction.poisson_binomial_data import without_test
from reproduction.sections import FIGURES, Picture, Pieces, Section, Table
from reproduction.split_grid import Runs
from reproduction.split_training import Data, Recipe, Setting

IMAGES_TITLE = "Images in quadrants"
LOOKED = 5
"""So many epochs of a curve are in the table."""
DRAWN = 15
"""At most about so many points of a curve are drawn."""
MOMENTUM, WIDTH = 0.9, 64
RATES, SIZES, COINS, BETA = (0.01, 0.03, 0.1), (8, 16, 32), 256, 0.15
"""What is tried on the validation part: rates, and P where b·P = 256, so that each costs about the same."""
WINDOW, RISE = 5, 0.002
"""A curve is flat where so many epochs are together no more than this above as many before."""
CHOOSING = 100
"""The seed of runs on the validation part."""
MATCHED = ((4, 0.1), (16, 0.1), (16, BETA))
SETTINGS = {
    "MNIST": (
        Setting("npq"),
        *(Setting("pbm", *noise) for noise in MATCHED),
        *(Setting("ldp", *noise, matched=True) for noise in MATCHED),
        Setting("ldp", 16, BETA),
    ),
    "CIFAR-10": (
        Setting("npq"),
        *(Setting("pbm", trials, beta) for beta in (0.1, BETA) for trials in (2, 4, 16)),
        *(Setting("ldp", *noise, matched=True) for noise in MATCHED),
        *(Setting("ldp", trials, beta) for beta in (0.1, BETA) for trials in (2, 4, 16)),
    ),
}
"""On CIFAR-10 all that Figure 2 of the paper has, and local noise that costs as much."""


@dataclass(frozen=True)
class Images:
    """One set: its settings, how long a choice of P and of rates trains, and by when a curve is flat at the latest."""

    data: Data
    settings: tuple[Setting, ...]
    pilot: int
    most: int
    longer: int = 1
    """So many times as long as it takes without noise."""


@dataclass(frozen=True)
class Chosen:
    """What the validation part said: P, the rate of each way to send, after how many epochs no noise is flat."""

    embedding: int
    rates: Mapping[str, float]
    flat: int
    right: Mapping[int, float]
    """The accuracy of each P, at its best rate."""


@dataclass(frozen=True)
class Found:
    """The curves of every setting, one for every seed."""

    chosen: Chosen
    epochs: int
    curves: Mapping[Setting, Sequence[Sequence[float]]]

    def end(self, setting: Setting) -> float:
        """The mean of the runs after the last epoch."""
        return fmean(run[-1] for run in self.curves[setting])


class Bench:
    """Runs of one set, each kept as soon as it is there, with the seconds of a processor that it took."""

    def __init__(self, name: str, pieces: Pieces) -> None:
        self.name, self.pieces, self.took = name, pieces, dict[str, float]()

    def curves(
        self, data: Data, settings: Sequence[Setting], *, epochs: int, embedding: int, seed: int
    ) -> list[list[float]]:
        """Accuracy on the rows of `data` that are not trained on, by epoch, for every setting."""
        key = f"{self.name}, {data.train.shape[1]}, {epochs}, P = {embedding}, {seed}: {list(settings)}"
        made = self.pieces.get(key, partial(_trained, data, settings, epochs, embedding, seed))
        self.took[key] = made["seconds"]
        curves: list[list[float]] = made["curves"]
        return curves


def _trained(
    data: Data, settings: Sequence[Setting], epochs: int, embedding: int, seed: int
) -> dict[str, Any]:
    start = process_time()
    runs = Runs(data, settings, seed=seed, recipe=Recipe(MOMENTUM, embedding, WIDTH))
    looks = []
    for number in range(epochs):
        runs.epoch(number)
        looks.append([round(right, 4) for right in runs.right()])
    return {"curves": list(zip(*looks, strict=True)), "seconds": process_time() - start}


def images_section(sets: Mapping[str, Images], *, seeds: Sequence[int], kept: Path | None) -> Section:
    """Test accuracy by epoch, for each setting and seed; a run is kept as soon as it is there."""
    benches = {name: Bench(name, Pieces(kept and kept / f"{name}.json")) for name in sets}
    found = {name: _found(benches[name], study, seeds) for name, study in sets.items()}
    tables = (*(_table(name, sets[name].data, each) for name, each in found.items()), _choices(sets, found))
    pictures = tuple(_picture(name, each.curves) for name, each in found.items()) if kept else ()
    seconds = {name: round(sum(bench.took.values()), 1) for name, bench in benches.items()}
    text = _text(sets, found, runs=len(seeds))
    return Section(
        IMAGES_TITLE, text, tables, pictures, sum(seconds.values()), facts={"processor seconds": seconds}
    )


def _found(bench: Bench, study: Images, seeds: Sequence[int]) -> Found:
    chosen = _chosen(bench, study)
    epochs = study.longer * chosen.flat
    settings = [replace(setting, rate=chosen.rates[setting.kind]) for setting in study.settings]
    runs = [
        bench.curves(study.data, settings, epochs=epochs, embedding=chosen.embedding, seed=seed)
        for seed in seeds
    ]
    return Found(chosen, epochs, dict(zip(settings, zip(*runs, strict=True), strict=True)))


def _chosen(bench: Bench, study: Images) -> Chosen:
    """P by what it does for PBM, the rate of each way to send, and how long, on a part of the training rows."""
    part = without_test(study.data)

    def best(setting: Setting, embedding: int) -> tuple[float, float]:
        tried = [replace(setting, rate=rate) for rate in RATES]
        curves = bench.curves(part, tried, epochs=study.pilot, embedding=embedding, seed=CHOOSING)
        return max((curve[-1], each.rate) for curve, each in zip(curves, tried, strict=True))

    by_size = {size: best(Setting("pbm", COINS // size, BETA), size) for size in SIZES}
    size = max(by_size, key=lambda each: by_size[each])
    sent = {
        "npq": Setting("npq"),
        "pbm": Setting("pbm", 16, BETA),
        "ldp": Setting("ldp", 16, BETA, matched=True),
    }
    rates = {kind: best(setting, size)[1] for kind, setting in sent.items()}
    plain = [Setting("npq", rate=rates["npq"])]
    (curve,) = bench.curves(part, plain, epochs=study.most, embedding=size, seed=CHOOSING)
    return Chosen(size, rates, flat_after(curve), {each: right for each, (right, _) in by_size.items()})


def flat_after(curve: Sequence[float]) -> int:
    """The first epoch after which a curve is flat, or its last.

    >>> flat_after([0.1, 0.3, 0.5, 0.6, 0.7] + [0.75] * 10)
    15
    """
    for end in range(2 * WINDOW, len(curve)):
        if fmean(curve[end - WINDOW : end]) <= fmean(curve[end - 2 * WINDOW : end - WINDOW]) + RISE:
            return end
    return len(curve)


def _text(sets: Mapping[str, Images], found: Mapping[str, Found], *, runs: int) -> str:
    trained = " and ".join(
        f"{len(study.data.train_codes):,} images of {name} for {found[name].epochs} epochs"
        for name, study in sets.items()
    )
    tested = " and ".join(f"{len(study.data.test_codes):,}" for study in sets.values())
    flat = " and ".join(f"after {each.chosen.flat} epochs on {name}" for name, each in found.items())
    longer = "".join(
        f"; noise learns later, so that on {name} everything is trained {study.longer} times as long"
        for name, study in sets.items()
        if study.longer > 1
    )
    return f"""
Four parties hold a quadrant of each image. The paper trains ResNet-18 on CIFAR-10's 50,000 images for 600 epochs on
V100s; here a party has three dense layers of width {WIDTH}, with momentum {MOMENTUM} and batches of 100. Trained on are
{trained}, tested on {tested} others; {"one run" if runs == 1 else f"{runs} runs"} each, with the
spread over them. Seconds are those of one processor. Coins have probabilities of 16 bits, as nothing is released.
`networks="resnet18"` is there for those who have the machine.

Everything that was chosen was chosen on the last sixth of the *training* rows, by runs on the others from a seed of
their own; nothing was chosen on test images. P is the one of {_listed(SIZES)} with which PBM is most accurate where
b·P = {COINS} and β = {BETA}, so that each costs about as much. The rate of a way to send is the best of
{_listed(RATES)} after as many epochs as the last table has, for NPQ, for PBM and for matched local noise at b = 16 and
β = {BETA}. It stays for the other noises: with a rate of their own, those that end near one in ten might end higher.
NPQ is flat where the mean of {WINDOW} epochs is at most {RISE} above that of the {WINDOW} before, {flat}{longer}. Then
all training rows are trained on.

{_claims(found)}
"""


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values[:-1]) + f" and {values[-1]:g}"


def _claims(found: Mapping[str, Found]) -> str:
    """What the runs say about the paper's claims."""
    lines = []
    for name, each in found.items():
        ends = {replace(setting, rate=0.0): each.end(setting) for setting in each.curves}
        plain, pbm, local, matched = (
            {(one.trials, one.beta): end for one, end in ends.items() if (one.kind, one.matched) == way}
            for way in (("npq", False), ("pbm", False), ("ldp", False), ("ldp", True))
        )
        (npq,) = plain.values()
        more = [(end, pbm[b, beta]) for (a, beta), end in pbm.items() for b in _next(pbm, a, beta)]
        wider = [
            (end, pbm[trials, BETA])
            for (trials, beta), end in pbm.items()
            if beta < BETA and (trials, BETA) in pbm
        ]
        dearer, same = ([(end, pbm[noise]) for noise, end in each.items()] for each in (local, matched))
        lines.append(
            f"- {name}: NPQ ends at {npq:.3f}{_best(found[name])}, PBM with b = 16 and β = {BETA} at "
            f"{pbm[16, BETA]:.3f}. More trials at the same β are better in {_rises(more)}, the larger β at the same b "
            f"in {_rises(wider)}. PBM is above local noise that costs as much in {_rises(same)}, and above local noise "
            f"of the paper's σ in {_rises(dearer)}."
        )
    return "After the last epoch:\n\n" + "\n".join(lines)


def _best(found: Found) -> str:
    """Where the curve without noise was higher before its end, how high; it takes no part in a choice."""
    ((_, runs),) = [item for item in found.curves.items() if item[0].kind == "npq"]
    best, epoch = max((fmean(values), epoch + 1) for epoch, values in enumerate(zip(*runs, strict=True)))
    return "" if epoch == found.epochs else f" (its best is {best:.3f}, after {epoch} epochs)"


def _next(pbm: Mapping[tuple[int, float], float], trials: int, beta: float) -> list[int]:
    """The next larger b at the same β, if there is one."""
    return sorted(b for b, other in pbm if other == beta and b > trials)[:1]


def _rises(pairs: Sequence[tuple[float, float]]) -> str:
    """In how many of them the second is the larger."""
    return f"{sum(low < high for low, high in pairs)} of {len(pairs)}"


def _name(setting: Setting) -> str:
    if setting.kind == "ldp":
        return "LDP, matched" if setting.matched else "LDP, paper's σ"
    return setting.kind.upper()


def _looked(epochs: int) -> list[int]:
    """Some epochs, the first and the last among them."""
    return sorted({round(1 + place * (epochs - 1) / (LOOKED - 1)) for place in range(LOOKED)})


def _table(name: str, data: Data, found: Found) -> Table:
    """The test accuracy after some epochs."""
    looked, parties = _looked(found.epochs), data.train.shape[0]
    rows = []
    for setting, runs in found.curves.items():
        cost = ""
        if setting.kind == "pbm":
            grid = (parties, setting.trials, setting.beta, found.epochs)
            cost = epsilon_text(true_epsilon(*grid, embedding=found.chosen.embedding))
        by_epoch = (_mean_text([run[epoch - 1] for run in runs]) for epoch in looked)
        rows.append(
            (
                _name(setting),
                str(setting.trials or ""),
                str(setting.beta or ""),
                f"{setting.rate:g}",
                *by_epoch,
                cost,
            )
        )
    head = ("method", "b", "β", "rate", *(f"epoch {epoch}" for epoch in looked), "ε of these epochs, server")
    caption = (
        f"{name}: test accuracy by epoch, {len(data.train_codes):,} images, P = {found.chosen.embedding}"
    )
    return Table(caption, head, tuple(rows))


def _choices(sets: Mapping[str, Images], found: Mapping[str, Found]) -> Table:
    rows = []
    for name, each in found.items():
        (parties, *_), pilot = sets[name].data.train.shape, sets[name].pilot
        costs = {
            size: epsilon_text(true_epsilon(parties, COINS // size, BETA, pilot, embedding=size))
            for size in SIZES
        }
        cells = (f"{each.chosen.right[size]:.3f} (ε = {costs[size]})" for size in SIZES)
        rows.append((name, str(pilot), *cells, str(each.chosen.embedding)))
    head = ("set", "epochs", *(f"P = {size}, b = {COINS // size}" for size in SIZES), "chosen P")
    return Table(f"Accuracy of PBM on the validation part, β = {BETA}, best rate", head, tuple(rows))


def _mean_text(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _picture(name: str, found: Mapping[Setting, Sequence[Sequence[float]]]) -> Picture:
    lines = []
    for setting, runs in found.items():
        drawn = sorted({*range(0, len(runs[0]), -(-len(runs[0]) // DRAWN)), len(runs[0]) - 1})
        steps = [[run[epoch] for run in runs] for epoch in drawn]
        spread = tuple(stdev(values) for values in steps) if len(runs) > 1 else ()
        label = f"{_name(setting)} {setting.trials or ''} {setting.beta or ''}".strip()
        heights = tuple(fmean(values) for values in steps)
        lines.append(Series(label, tuple(epoch + 1.0 for epoch in drawn), heights, spread, _style(setting)))
    picture = Picture(
        f"poisson-binomial-{name.lower()}.svg",
        f"{name} in quadrants: test accuracy by epoch, with the spread",
    )
    FIGURES.mkdir(parents=True, exist_ok=True)
    axes = Axes("epoch", "test accuracy", whole_x=True)
    picture.path.write_text(svg(Chart(f"{name} in quadrants", axes, tuple(lines))), encoding="utf-8")
    return picture


def _style(setting: Setting) -> Style:
    """A colour for each way to send, a mark for each b, and dashes where β is the smaller."""
    colour = {"NPQ": "#000000", "PBM": "#1f5fa8", "LDP, matched": "#c05a00"}.get(_name(setting), "#8c8c8c")
    marks: dict[int, Mark] = {0: "circle", 2: "up", 4: "square", 16: "diamond"}
    return Style(colour, () if setting.beta in (0.0, BETA) else (4, 2), marks[setting.trials])
