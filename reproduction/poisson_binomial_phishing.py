"""PBM-VFL on the phishing set: Figures 4 and 6 and Table 3, the whole grid with five and ten parties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

from colonnade.privacy.guarantee import epsilon_text
from reproduction.poisson_binomial_costs import stated_epsilon, true_epsilon
from reproduction.sections import FIGURES, Picture, Section, Table, spread_text, timed
from reproduction.split_grid import SEEN, grid_of_runs
from reproduction.split_networks import EMBEDDING
from reproduction.split_training import RATE, Curve, Data, Setting

TRIALS, BETAS = (8, 16, 64, 128), (0.1, 0.15, 0.2, 0.25)
LOCAL_TRIALS = 16
TARGET = 0.9
PUBLISHED_EPOCHS, PUBLISHED_RUNS = 100, 3
Found = Mapping[Setting, Sequence[Curve]]


def phishing_section(
    sets: Mapping[int, Data], *, epochs: Mapping[int, int], seeds: Sequence[int], kept: Path | None
) -> Section:
    """The grid of trials and β, beside no privacy and local noise, for each number of parties."""
    settings = [
        Setting("npq"),
        *(Setting("pbm", trials, beta) for trials in TRIALS for beta in BETAS),
        *(Setting("ldp", LOCAL_TRIALS, beta, matched) for beta in BETAS for matched in (False, True)),
    ]
    before = kept is not None and any(kept.glob("*.json"))
    with timed() as watch:
        found = {
            parties: grid_of_runs(data, settings, seeds=seeds, epochs=epochs[parties], kept=kept)
            for parties, data in sets.items()
        }
        tables = [_ends(parties, curves, epochs[parties]) for parties, curves in found.items()]
        first = min(sets)
        tables.append(_to_target(first, sets[first], found[first], epochs[first]))
        pictures = (_curves(found),) if kept else ()
    runs = f"{len(seeds)} runs" if len(seeds) > 1 else "one run"
    trained = " and ".join(f"{count} epochs with {parties} parties" for parties, count in epochs.items())
    less = any(count < PUBLISHED_EPOCHS for count in epochs.values()) or len(seeds) < PUBLISHED_RUNS
    paper = f"where the paper has {PUBLISHED_EPOCHS} and three" if less else "as the paper has"
    again = " Runs were kept from before; the seconds below are those of the rest." if before else ""
    text = f"""
The {sum(len(codes) for codes in (sets[first].train_codes, sets[first].test_codes)):,} sites of the phishing set, 80 %
to train, three dense layers of width 32 a party, P = {EMBEDDING}, batches of 100 and plain steps of {RATE}, as
published; {trained} and {runs}, {paper}. P is the paper's, and nothing was chosen
on the test split. The paper's text has b ∈ {{8, 16, 32, 64}}, its table on Activity {{8, 16, 64, 128}}; the second is
taken. *LDP, paper's σ* has the variance 2M/(bβ²) that the paper calls equally private; *matched* has the variance that
is: M(1 − 4β²)/(4bβ²), 8/(1 − 4β²) times less. The paper's figures show curves without numbers, and its Table 3 is a
picture in the copy that was read; nothing is read off them here. Table 3 counts epochs until an AUPRC of {TARGET} on
training rows ({SEEN:,} of them are looked at); megabytes are the formula T·B·M·P(log₂(bM) + 32) for what was run. Coins
have probabilities of 16 bits, as nothing is released.{again}

{_claims(found)}
"""
    return Section("Phishing, five and ten parties", text, tuple(tables), pictures, watch.seconds)


def _mean(curves: Sequence[Curve], epochs: int = 0) -> float:
    return fmean(curve.precision[epochs - 1] for curve in curves)


def _spread(curves: Sequence[Curve], epochs: int) -> float:
    return stdev(curve.precision[epochs - 1] for curve in curves)


def _claims(found: Mapping[int, Found]) -> str:
    """What the paper says of its figures, and whether it is so here."""
    lines = []
    for parties, curves in found.items():
        ends = {setting: _mean(each) for setting, each in curves.items()}
        more = [
            (ends[Setting("pbm", low, beta)], ends[Setting("pbm", high, beta)])
            for beta in BETAS
            for low, high in pairwise(TRIALS)
        ]
        wider = [
            (ends[Setting("pbm", trials, low)], ends[Setting("pbm", trials, high)])
            for trials in TRIALS
            for low, high in pairwise(BETAS)
        ]
        local = {
            matched: sum(
                ends[Setting("pbm", LOCAL_TRIALS, beta)] > ends[Setting("ldp", LOCAL_TRIALS, beta, matched)]
                for beta in BETAS
            )
            for matched in (False, True)
        }
        lines.append(
            f"- {parties} parties: more trials at the same β are better in {sum(a < b for a, b in more)} of "
            f"{len(more)} steps of the grid, a larger β at the same b in {sum(a < b for a, b in wider)} of "
            f"{len(wider)}; PBM is above local noise of the paper's σ in {local[False]} of {len(BETAS)} settings, and "
            f"above local noise that costs as much in {local[True]}."
        )
    if len(found) > 1:
        few, many = (found[parties] for parties in sorted(found))
        shortest = min(len(curves[0].precision) for each in (few, many) for curves in each.values())
        worse = [
            setting
            for setting in few
            if setting.kind == "pbm" and _mean(many[setting], shortest) < _mean(few[setting], shortest)
        ]
        beyond = ""
        if all(len(curves) > 1 for each in (few, many) for curves in each.values()):
            clear = [
                setting
                for setting in worse
                if _mean(few[setting], shortest) - _mean(many[setting], shortest)
                > _spread([*few[setting], *many[setting]], shortest)
            ]
            beyond = f", and in {len(clear)} by more than the runs are apart"
        lines.append(
            f"- The paper finds that more parties lose accuracy at the same b and β: after as many epochs so here in "
            f"{len(worse)} of {len(TRIALS) * len(BETAS)} settings{beyond}."
        )
    return "What the paper says of these figures, held against the table:\n\n" + "\n".join(lines)


def _name(setting: Setting) -> str:
    if setting.kind == "ldp":
        return "LDP, matched" if setting.matched else "LDP, paper's σ"
    return setting.kind.upper()


def _ends(parties: int, found: Found, epochs: int) -> Table:
    rows = []
    for setting, curves in found.items():
        costs = ("", "")
        if setting.kind == "pbm":
            grid = (parties, setting.trials, setting.beta, epochs)
            costs = (f"{stated_epsilon(*grid):.1f}", epsilon_text(true_epsilon(*grid)))
        rows.append(
            (
                _name(setting),
                str(setting.trials or ""),
                f"{setting.beta:g}" if setting.beta else "",
                spread_text([curve.test[-1] for curve in curves]),
                spread_text([curve.precision[-1] for curve in curves]),
                *costs,
            )
        )
    head = ("method", "b", "β", "test accuracy", "AUPRC", "ε stated", "ε, server, as it is")
    return Table(f"Phishing with {parties} parties after {epochs} epochs", head, tuple(rows))


def _to_target(parties: int, data: Data, found: Found, epochs: int) -> Table:
    rows = []
    for setting, curves in found.items():
        if setting.kind == "ldp":
            continue
        reached = [curve.epochs_to(TARGET, of="train_precision") for curve in curves]
        there = [epoch for epoch in reached if epoch is not None]
        bits = math.log2(parties * setting.trials) + 32 if setting.trials else 64.0
        took = "not reached" if len(there) < len(reached) else f"{fmean(there):.1f}"
        sent = ""
        if len(there) == len(reached):
            megabytes = fmean(there) * len(data.train_codes) * parties * EMBEDDING * bits / 8e6
            sent = f"{megabytes:.1f}"
        rows.append(
            (
                _name(setting),
                str(setting.trials or ""),
                f"{setting.beta:g}" if setting.beta else "",
                took,
                sent,
            )
        )
    head = ("method", "b", "β", "epochs, mean of runs", "MB sent")
    caption = f"Table 3: epochs to an AUPRC of {TARGET} on training rows, {parties} parties, at most {epochs}"
    return Table(caption, head, tuple(rows))


def _curves(found: Mapping[int, Found]) -> Picture:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(9.5, 3.8), sharey=True, squeeze=False)
    for axis, (parties, curves) in zip(axes[0], found.items(), strict=True):
        for setting, each in curves.items():
            if setting.beta not in (0.0, BETAS[0], BETAS[-1]):
                continue
            style = {"pbm": "-", "ldp": ":", "npq": "--"}[setting.kind]
            label = f"{_name(setting)} {setting.trials or ''} {setting.beta or ''}".strip()
            steps = list(zip(*(curve.precision for curve in each), strict=True))
            middle = [fmean(values) for values in steps]
            epochs = range(1, len(middle) + 1)
            (line,) = axis.plot(epochs, middle, style, label=label, linewidth=1.1)
            if len(each) > 1:
                spread = [stdev(values) for values in steps]
                low = [a - b for a, b in zip(middle, spread, strict=True)]
                high = [a + b for a, b in zip(middle, spread, strict=True)]
                axis.fill_between(epochs, low, high, alpha=0.12, color=line.get_color(), linewidth=0)
        axis.set_title(f"{parties} parties")
        axis.set_xlabel("epoch")
    axes[0][0].set_ylabel("AUPRC on test rows, mean ± deviation")
    axes[0][-1].legend(fontsize=6, loc="lower right", ncols=2)
    FIGURES.mkdir(parents=True, exist_ok=True)
    words = "AUPRC by epoch on the phishing set, five and ten parties, with the spread of the runs"
    picture = Picture("poisson_binomial_phishing.svg", words)
    figure.tight_layout()
    figure.savefig(picture.path, metadata={"Date": None})
    pyplot.close(figure)
    return picture
