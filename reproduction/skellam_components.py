"""The shape of Figure 1 of SPCA, and a picture of our own in the place of Figure 2."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from colonnade.data.encoder import LEAST_GAMMA_NEAREST
from colonnade.data.table import Table as DataTable
from colonnade.federation.federation import Federation
from colonnade.methods.table import METHODS, checked_options, train_with
from colonnade.models.moments import Scatter, principal_directions
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SystemRandomness
from reproduction.one_place import OnePlace
from reproduction.sections import FIGURES, Picture, Section, Table, timed
from reproduction.skellam_sets import Components

DELTA = 1e-5
BUDGET = (1e4, DELTA)
MANY = 1000
"""Past so many columns only the leading directions are computed."""
_DOTS = 1500
_SHORT = {
    "SPCA, sound": "spca",
    "central, equal variance": "central",
    f"SPCA, {LABEL}": "spca_paper",
    "local perturbation": "local",
}


def components_section(
    data: Components,
    *,
    epsilons: tuple[float, ...],
    ranks: tuple[int, ...],
    grids: tuple[int, ...],
    paper: tuple[float, ...],
    title: str,
    remark: str,
) -> Section:
    """Captured variance of every method over the optimum, and the rank that can be believed."""
    with timed() as watch:
        everybody = OnePlace(data.tables, delta=DELTA)
        exact = _release(data.tables, "non-private", {}, epsilons[0])
        best = _largest(exact.gram, max(ranks))[0]
        rows: list[tuple[str, ...]] = []
        facts: dict[str, float] = {}
        for epsilon in epsilons:
            rows += _lines(data, everybody, exact, best, epsilon, ranks, grids, paper, facts)
    head = ("ε", "method", "grid", "believable rank", *(f"k = {rank}" for rank in ranks))
    text = f"""
{data.name}: {exact.rows:,} rows, {exact.columns} features of norm at most 1, two parties and a server; the plan of
the protocol, its integers and its noise, in one place instead of in shares, which changes no number. A cell is
‖DV‖²/‖DV_k‖²: the variance along the k directions found over that along the best k, around the origin as in the paper.
The believable rank is the number of directions that stand out of the noise, which a model
reports by itself; past it directions are noise, and the library warns. *Central* is normal noise of the same
variance on the same moments, drawn by a trusted party. Local perturbation is Algorithm 3 with its own guarantee.
{remark.strip()}
"""
    return Section(
        title,
        text,
        (Table("Captured variance over the optimum", head, tuple(rows)),),
        seconds=watch.seconds,
        facts=facts,
    )


def _lines(
    data: Components,
    everybody: OnePlace,
    exact: MomentRelease,
    best: NDArray[np.float64],
    epsilon: float,
    ranks: tuple[int, ...],
    grids: tuple[int, ...],
    paper: tuple[float, ...],
    facts: dict[str, float],
) -> list[tuple[str, ...]]:
    runs: list[tuple[str, str, MomentRelease]] = []
    for exponent in grids:
        sound = everybody.moments("pca", epsilon=epsilon, method="spca", options={"gamma": 1 << exponent})
        runs.append(("SPCA, sound", f"2^{exponent}", sound))
    runs.append(("central, equal variance", f"2^{grids[-1]}", _equal(exact, sound)))
    if epsilon in paper:
        options = {"gamma": 1 << grids[-1], "calibration": "paper"}
        runs.append((f"SPCA, {LABEL}", f"2^{grids[-1]}", _release(data.tables, "spca", options, epsilon)))
    runs.append(("local perturbation", "2^12", _release(data.tables, "local", {}, epsilon)))
    lines = []
    for name, grid, release in runs:
        rank, captured = _captured(release, exact, best, ranks)
        lines.append((f"{epsilon:g}", name, grid, rank, *(f"{share:.4f}" for share in captured)))
        for k, share in zip(ranks, captured, strict=True):
            facts[f"{_SHORT[name]}_{grid}_eps{epsilon:g}_k{k}"] = round(share, 6)
    return lines


def _captured(
    release: MomentRelease, exact: MomentRelease, best: NDArray[np.float64], ranks: tuple[int, ...]
) -> tuple[str, list[float]]:
    if release.columns > MANY:
        rank, components = _leading(release, max(ranks))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PCA(max(ranks), centre=False).fit(release)
        rank, components = model.learnable_rank_, model.components_
    along = np.einsum("ij,ij->i", components @ exact.gram, components)
    return str(rank), [float(along[:rank].sum() / best[:rank].sum()) for rank in ranks]


def _leading(release: MomentRelease, count: int) -> tuple[int, NDArray[np.float64]]:
    """What `PCA(centre=False)` finds, from the leading directions alone: all of them take a minute of thousands.

    Outside their span and the mean's nothing stands out of the noise, so the rules see the same inside it, once the
    noise is as strong there as it is in all: its edge 2s√d is the same.
    """
    moments = release.plain_moments()
    if not moments.count > 0:
        raise ValueError("noise has swallowed the number of rows")
    scatter = moments.scatter()
    vectors = _largest(scatter.matrix, max(count, 16))[1]
    basis = np.linalg.qr(np.column_stack([vectors, scatter.mean]))[0]
    inside = Scatter(
        scatter.count,
        basis.T @ scatter.mean,
        basis.T @ scatter.matrix @ basis,
        scatter.noise * math.sqrt(len(basis) / basis.shape[1]),
        scatter.border,
    )
    lift = release.rows / (4.0 * release.gamma**2) if release.gamma < LEAST_GAMMA_NEAREST else 0.0
    found = principal_directions(inside, centre=False, lift=lift)
    return found.learnable, found.directions[:count] @ basis.T


def _largest(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest eigenvalues, largest first, and their vectors as columns."""
    if len(matrix) <= MANY:
        values, vectors = np.linalg.eigh(matrix)
    else:
        # Those past the believable rank are noise: how exactly noise is met does not matter.
        values, vectors = eigsh(matrix, k=count, which="LA", ncv=4 * count, tol=1e-2)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _release(
    tables: list[DataTable], method: str, options: Mapping[str, Any], epsilon: float
) -> MomentRelease:
    """One release by a method; δ at the paper's 1e-5, which is not below 1/n for every set here."""
    source = Federation(tables, budget=BUDGET, public=True)
    requested = TrainingSpec(
        "pca", epsilon, delta=DELTA, accepted_delta=DELTA, options=checked_options(METHODS[method], options)
    )
    found = train_with(source, method, requested)
    if not isinstance(found, MomentRelease):
        raise TypeError(f"{method} releases no moments")
    return found


def _equal(exact: MomentRelease, release: MomentRelease) -> MomentRelease:
    """The exact moments with discrete normal noise of as much variance as the protocol's release has."""
    size, randomness = len(exact.matrix), SystemRandomness()
    scale = Fraction(exact.gamma, release.gamma) ** 4
    variance = release.mu * scale
    upper = np.triu(DiscreteGaussianNoise(variance).draw((size, size), randomness), 1)
    diagonal = DiscreteGaussianNoise(2 * variance).draw(size, randomness)
    return replace(exact, matrix=exact.matrix + upper + upper.T + np.diag(diagonal), mu=variance)


def picture_section(data: Components, *, epsilon: float, folder: Path = FIGURES) -> Section:
    """The rows along the first two directions that each method finds."""
    with timed() as watch:
        exact = _release(data.tables, "non-private", {}, epsilon)
        sound = OnePlace(data.tables, delta=DELTA).moments("pca", epsilon=epsilon, method="spca")
        shown = {
            "central, equal variance": _equal(exact, sound),
            "SPCA, sound": sound,
            "local perturbation": _release(data.tables, "local", {}, epsilon),
        }
        some = np.linspace(0, len(data.flags) - 1, min(_DOTS, len(data.flags))).astype(int)
        features = _features(data, exact, some)
        points = {name: features @ _first_two(release).T for name, release in shown.items()}
        name = "skellam-projections.svg"
        _draw(points, data.flags[some], folder / name)
    text = f"""
The paper's Figure 2 shows KDDCUP along the first two directions at ε = 0.25. This is a picture of our own, of
{data.name} at ε = {epsilon:g}: {len(some)} rows, those that are no attack against the others, along the first two
directions of one Skellam release inside the protocol, of central noise of the same variance, and of rows that every
party perturbed by itself.
"""
    words = "Rows along the first two directions found by central noise, by SPCA and by local perturbation"
    return Section("In the place of Figure 2", text, (), (Picture(name, words),), seconds=watch.seconds)


def _first_two(release: MomentRelease) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(PCA(2, centre=False).fit(release).components_)


def _features(data: Components, exact: MomentRelease, some: NDArray[np.int64]) -> NDArray[np.float64]:
    parts = []
    for table, (_, encoder) in zip(data.tables, exact.encoders, strict=True):
        whole = np.concatenate([encoder.encode(block) for block in table.blocks()])
        parts.append(whole[some])
    return np.asarray(np.concatenate(parts, axis=1) / np.sqrt(exact.attributes))


def _draw(points: dict[str, NDArray[np.float64]], flags: NDArray[np.bool_], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "colonnade"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    for number, (title, where) in enumerate(points.items(), start=1):
        axes = figure.add_subplot(1, 3, number)
        for chosen, label, marker in ((~flags, "attack", "x"), (flags, "no attack", "o")):
            axes.scatter(
                where[chosen, 0],
                where[chosen, 1],
                s=6,
                marker=marker,
                linewidths=0.6,
                label=label,
                rasterized=True,
            )
        axes.set_title(title, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.axes[0].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Date": None})
