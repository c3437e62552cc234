"""PBM-VFL on images in quadrants: learning curves without privacy, with PBM and with local noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from colonnade.privacy.guarantee import epsilon_text
from colonnade.report.charts import Axes, Chart, Series, svg
from reproduction.poisson_binomial_costs import true_epsilon
from reproduction.sections import FIGURES, Picture, Pieces, Section, Table, timed
from reproduction.split_training import Data, Setting, Trainer

IMAGES_TITLE = "Images in quadrants"
LOOKED = 5
"""So many epochs of a curve are in the table."""
NOISES = ((4, 0.1), (16, 0.1), (16, 0.15))
SETTINGS = (
    Setting("npq"),
    *(Setting("pbm", *noise) for noise in NOISES),
    *(Setting("ldp", *noise, matched=True) for noise in NOISES),
    Setting("ldp", 16, 0.15),
)
Curves = Mapping[Setting, Sequence[Sequence[float]]]


def images_section(
    sets: Mapping[str, Data], *, epochs: Mapping[str, int], seeds: Sequence[int], kept: Path | None
) -> Section:
    """Test accuracy by epoch, for each setting and seed; a run is kept as soon as it is there."""
    pieces = Pieces(kept)
    with timed() as watch:
        found: dict[str, Curves] = {
            name: {
                setting: [
                    pieces.get(
                        f"{name}, {data.train.shape[1]}, {epochs[name]}, {setting}, {seed}",
                        partial(_curve, data, setting, epochs[name], seed),
                    )
                    for seed in seeds
                ]
                for setting in SETTINGS
            }
            for name, data in sets.items()
        }
    sizes = " and ".join(
        f"{data.train.shape[1]:,} images of {name} for {epochs[name]} epochs" for name, data in sets.items()
    )
    runs = "one run each" if len(seeds) == 1 else f"{len(seeds)} runs each"
    text = f"""
Four parties hold a quadrant of each image. The paper trains ResNet-18 on CIFAR-10's 50,000 images for 600 epochs on
V100s; two processor cores allow a small convolutional network a party: {sizes}, tested on 2,000 others, with momentum
0.9; {runs}. P is the paper's, and nothing was chosen on the test images. `python -m reproduction --full` takes all
digits of MNIST and all images of CIFAR-10 at hand; `networks="resnet18"` is there for those who have the machine.
"""
    pictures = tuple(_picture(name, curves) for name, curves in found.items()) if kept else ()
    return Section(IMAGES_TITLE, text, (_table(found),), pictures, watch.seconds)


def _curve(data: Data, setting: Setting, epochs: int, seed: int) -> list[float]:
    return [round(value, 4) for value in Trainer(data, setting, seed=seed, momentum=0.9).epochs(epochs).test]


def _name(setting: Setting) -> str:
    return setting.kind.upper() + (", matched" if setting.matched else "")


def _table(found: Mapping[str, Curves]) -> Table:
    """The accuracy by epoch, of many epochs after some of them, the last among them."""
    rows = []
    for name, curves in found.items():
        for setting, runs in curves.items():
            epochs = len(runs[0])
            looked = sorted({round(1 + place * (epochs - 1) / (LOOKED - 1)) for place in range(LOOKED)})
            noisy = setting.kind == "pbm"
            cost = epsilon_text(true_epsilon(4, setting.trials, setting.beta, epochs)) if noisy else ""
            by_epoch = " ".join(_mean_text([run[epoch - 1] for run in runs]) for epoch in looked)
            rows.append(
                (name, _name(setting), str(setting.trials or ""), str(setting.beta or ""), by_epoch, cost)
            )
    head = ("set", "method", "b", "β", "test accuracy by epoch", "ε of these epochs, server")
    return Table(" and ".join(found), head, tuple(rows))


def _mean_text(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _picture(name: str, found: Curves) -> Picture:
    lines = []
    for setting, runs in found.items():
        steps = list(zip(*runs, strict=True))
        spread = tuple(stdev(values) for values in steps) if len(runs) > 1 else ()
        label = f"{_name(setting)} {setting.trials or ''} {setting.beta or ''}".strip()
        heights = tuple(fmean(values) for values in steps)
        lines.append(Series(label, tuple(map(float, range(1, len(steps) + 1))), heights, spread))
    picture = Picture(
        f"poisson-binomial-{name.lower()}.svg",
        f"{name} in quadrants: test accuracy by epoch, with the spread",
    )
    FIGURES.mkdir(parents=True, exist_ok=True)
    axes = Axes("epoch", "test accuracy", whole_x=True)
    picture.path.write_text(svg(Chart(f"{name} in quadrants", axes, tuple(lines))), encoding="utf-8")
    return picture
