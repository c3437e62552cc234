"""Draw who sends what to whom, from transcripts of real runs: `python docs/figures/flows.py`.

Each picture is one run of the real protocol in this process, on a small made-up table, with every frame kept. Arrows
are frames as they arrived: step, sender, receiver, bytes. What a frame holds is said by `HOLDS`; a step that is not
there is an error, so a protocol cannot change without its picture. The coins are seeded, so that the same library
gives the same bytes.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from colonnade import Federation, LogisticRegression, NeuralClassifier, Schema, Table
from colonnade.federation.federation import Run
from colonnade.protocols.plans import Spec
from colonnade.runtime.run import Outcome, Program

HERE = Path(__file__).parent
PEOPLE = 60


@dataclass(frozen=True)
class Holds:
    """What the frames of a kind of step are: a sort, which gives the arrow its look, and words."""

    sort: str
    words: str


BEFORE = "job, declared columns"
ALIGN = "which people all have"
CHARGE = "one plan, ledgers charged"
AFTER = "done"
# In the order in which steps come.
HOLDS = {
    "hello": Holds("agree", BEFORE),
    "known entries": Holds("agree", BEFORE),
    "proved entries": Holds("agree", BEFORE),
    "job": Holds("agree", BEFORE),
    "introduction": Holds("agree", BEFORE),
    "rows": Holds("agree", BEFORE),
    "id rules": Holds("align", ALIGN),
    "set sizes": Holds("align", ALIGN),
    "blinded ids": Holds("align", ALIGN),
    "twice blinded ids": Holds("align", ALIGN),
    "matching": Holds("align", ALIGN),
    "pseudonym key": Holds("align", ALIGN),
    "pseudonym key compared": Holds("align", ALIGN),
    "pseudonyms": Holds("align", ALIGN),
    "common number": Holds("align", ALIGN),
    "common places": Holds("align", ALIGN),
    "people": Holds("align", ALIGN),
    "people, twice blinded": Holds("align", ALIGN),
    "plan": Holds("charge", CHARGE),
    "begun": Holds("charge", CHARGE),
    "receipts": Holds("charge", CHARGE),
    "columns": Holds("share", "a share of its columns"),
    "columns, pads": Holds("share", "a share of what its rows lack in length"),
    "columns, seed": Holds("key", "a seed of masks for its proof"),
    "columns, challenge": Holds("key", "a fresh random number"),
    "columns, bits": Holds("masked", "half of the bits of random sums of rows"),
    "columns, second challenge about": Holds("key", "a second random number"),
    "columns, heard": Holds("agree-late", "digest of the numbers it heard"),
    "columns, proof": Holds("masked", "half of a proof that no row is too long"),
    "columns, third challenge about": Holds("key", "the point at which to check the proof"),
    "columns, answer about": Holds("masked", "its half of the proof at that point"),
    "noise of matrix": Holds("share", "a share of its noise"),
    "matrix": Holds("masked", "a share of matrix + noise"),
    "batch key": Holds("key", "its part of the batches' key"),
    "weights": Holds("public", "weights so far"),
    "comparison weights": Holds("agree-late", "digest of the weights it heard"),
    "waves": Holds("share", "a share of cosines and sines of its scores"),
    "slopes": Holds("share", "a share of its share of the slopes"),
    "batch": Holds("share", "a share of its rows in the batch"),
    "noise": Holds("share", "a share of its noise"),
    "moments": Holds("masked", "a share of matrix + noise"),
    "gradient": Holds("masked", "a share of gradient + noise"),
    "release": Holds("noisy", "the noisy matrix"),
    "model": Holds("public", "the model"),
    "scores": Holds("noisy", "its scores + noise"),
    "residuals": Holds("noisy", "residuals + noise"),
    "key": Holds("key", "its public key, with a proof"),
    "batch for": Holds("cipher", "its scores + noise, encrypted"),
    "batch asked": Holds("cipher", "sums under a mask, to decrypt"),
    "batch answered": Holds("masked", "decrypted, still masked"),
    "mask keys": Holds("key", "public halves of pairwise keys"),
    "sum": Holds("masked", "its counts under masks"),
    "back": Holds("noisy", "gradients from noisy sums"),
    "comparison back": Holds("agree-late", "digest of the gradients it heard"),
    "epoch": Holds("agree-late", "whether to go on"),
    "comparison epoch": Holds("agree-late", "digest of the word it heard"),
    "finished": Holds("end", AFTER),
    "closing": Holds("end", AFTER),
}
COLLAPSED = ("agree", "align", "charge", "end")
LOOK = {
    "share": ("#1f5f8b", "", "share"),
    "masked": ("#7a3e9d", "7 3", "masked"),
    "cipher": ("#2e7d4f", "2 3", "encrypted"),
    "noisy": ("#b4541a", "", "with noise, readable"),
    "public": ("#b4541a", "1 4", "made of what was opened"),
    "key": ("#6b6b6b", "", "key"),
    "agree-late": ("#6b6b6b", "3 3", "digest or word"),
}


class Recording(Federation):
    """A federation that keeps every frame of its runs."""

    def run(self, session: Program, spec: Spec, *, record: bool = True, **how: Any) -> Run[Any]:
        return super().run(session, spec, record=True, **how)


def federation(*owners: str) -> Recording:
    """Made-up people between the owners; the first one holds the label."""
    rng = np.random.default_rng(1)
    values = {owner: rng.uniform(0, 1, (2, PEOPLE)) for owner in owners}
    total = np.sum([value.sum(axis=0) for value in values.values()], axis=0)
    tables = []
    for owner, (first, second) in values.items():
        declared = 'id = "n"\n' + "".join(
            f'columns.{name} = {{kind = "numeric", low = 0, high = 1}}\n' for name in ("first", "second")
        )
        columns: dict[str, Any] = {"first": first, "second": second}
        if owner == owners[0]:
            declared += 'label = {column = "answer", kind = "classes", classes = ["no", "yes"]}\n'
            columns["answer"] = np.where(total > np.median(total), "yes", "no")
        tables.append(Table.from_arrays(owner, columns, Schema.parse(declared)))
    return Recording(tables, budget=(1000.0, 1e-3), noise_seed=1)


@dataclass(frozen=True)
class Flow:
    """A run to draw: a title, who takes part, and what is trained."""

    title: str
    owners: tuple[str, ...]
    train: Callable[[Federation], object]


def logistic(method: str, **options: Any) -> Callable[[Federation], object]:
    model = LogisticRegression(epsilon=8.0, delta=1e-4, method=method, options=options)
    return model.fit


def network(parties: Federation) -> object:
    return NeuralClassifier(
        regime="private-local", epsilon=4.0, delta=1e-4, embedding=2, batch=30, epochs=1
    ).fit(parties)


PAIR = ("bank", "insurer")
FLOWS = {
    "moments": Flow(
        "One release of moments, two owners: the server is the third computing party",
        PAIR,
        logistic("moments"),
    ),
    "moments-four": Flow(
        "One release of moments, four owners: three of them keep the shares",
        ("bank", "clinic", "insurer", "shop"),
        logistic("moments"),
    ),
    "margin": Flow("Noisy margin descent, two owners", PAIR, logistic("margin", steps=3)),
    "slr": Flow("Logistic regression by noisy gradients", PAIR, logistic("slr", epochs=2.0, rate=1.0)),
    "private-messages": Flow("Private messages", PAIR, logistic("private-messages", epochs=1, batch=30)),
    "encrypted": Flow("Gradients under encryption", PAIR, logistic("encrypted", epochs=1, batch=30)),
    "network": Flow(
        "A network over three parties, whose local networks learn privately",
        ("bank", "insurer", "shop"),
        network,
    ),
}


@dataclass(frozen=True)
class Arrow:
    """Frames of one kind of step from one to another: the bytes of the first one, and how many more came later."""

    step: str
    sender: str
    receiver: str
    size: int
    further: int


def kind(step: str) -> str:
    """A step without its numbers and names: `batch 3 for bank` is a `batch for`.

    >>> kind("batch 3 for bank"), kind("columns 0"), kind("batch 0.0"), kind("columns 0, answer about bank")
    ('batch for', 'columns', 'batch', 'columns, answer about')
    """
    plain = re.sub(r" \d+(\.\d+)?", "", step)
    return re.sub(r" (for|about) \w+$", r" \1", plain)


def label(step: str) -> str:
    """What stands beside the first arrow of a step: parts of a check by themselves, after the step that they check.

    >>> label("batch for"), label("columns"), label("columns, answer about")
    ('batch', 'columns', 'answer')
    """
    return re.sub(r"^.*, | (for|about)$", "", step)


def transcript(flow: Flow) -> tuple[tuple[str, ...], list[Arrow]]:
    """Who took part in a run, and its frames, each kind of step once, in the order in which they come."""
    parties = federation(*flow.owners)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sixty people are too few to learn from, and nothing is learnt
        flow.train(parties)
    run = parties.runs[-1]
    return run.plan.group.members, ordered(run.outcome)


def ordered(outcome: Outcome) -> list[Arrow]:
    """The frames of a run by step. A step that nobody described is an error."""
    first: dict[tuple[str, str, str], int] = {}
    count: Counter[tuple[str, str, str]] = Counter()
    for receiver, frames in outcome.seen.items():
        for frame in frames or ():
            key = (kind(frame.step), frame.sender, receiver)
            first.setdefault(key, len(frame.frame))
            count[key] += 1
    names = list(HOLDS)
    unknown = sorted({step for step, _, _ in first} - set(names))
    if unknown:
        raise KeyError(f"docs/figures/flows.py does not say what these steps hold: {', '.join(unknown)}")
    arrows = [Arrow(*key, size, count[key] - 1) for key, size in first.items()]
    members = list(outcome.seen)
    return sorted(
        arrows, key=lambda a: (names.index(a.step), members.index(a.sender), members.index(a.receiver))
    )


LEFT, LANE, RIGHT, ROW, TOP = 118, 104, 304, 22, 84


def draw(name: str) -> str:
    """The picture of a run as SVG."""
    flow = FLOWS[name]
    members, arrows = transcript(flow)
    lines = list(rows(arrows))
    width = LEFT + LANE * len(members) + RIGHT
    height = TOP + ROW * len(lines) + 62
    place = {member: LEFT + LANE * number + LANE // 2 for number, member in enumerate(members)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(flow.title)}</title>",
        f"<desc>{escape(spoken(arrows))}</desc>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        text(16, 26, flow.title, size=14, weight=600),
    ]
    bottom = TOP + ROW * len(lines)
    for member, x in place.items():
        parts.append(
            f'<rect x="{x - 42}" y="{TOP - 40}" width="84" height="24" rx="4" fill="#eef2f5" stroke="#24435c"/>'
        )
        parts.append(text(x, TOP - 24, member, anchor="middle", weight=600))
        parts.append(f'<path d="M{x} {TOP - 16}V{bottom}" stroke="#b8c2ca"/>')
    y, step = TOP, ""
    for line in lines:
        if isinstance(line, Band):
            parts += line.drawn(y, place)
        else:
            parts += arrow(line, y, place, named=line.step != step)
            step = line.step
        y += ROW
    parts += legend(arrows, bottom + 30)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class Band:
    """Steps that everybody takes with everybody, or rounds that are like the one shown, as one line."""

    label: str
    words: str

    def drawn(self, y: int, place: dict[str, int]) -> list[str]:
        left, right = min(place.values()) - 46, max(place.values()) + 46
        return [
            f'<rect x="{left}" y="{y + 3}" width="{right - left}" height="16" rx="3" fill="#eceff1"/>',
            text(16, y + 15, self.label, fill="#555555"),
            text(right + 8, y + 15, self.words, fill="#555555"),
        ]


def rows(arrows: list[Arrow]) -> Iterator[Arrow | Band]:
    """Lines of the picture: bands for what is the same in every protocol, arrows for the rest."""
    shown: set[str] = set()
    loop = max((a.further for a in arrows), default=0)
    looped = [a for a in arrows if a.further]
    for one in arrows:
        holds = HOLDS[one.step]
        if holds.sort in COLLAPSED:
            if holds.sort not in shown:
                shown.add(holds.sort)
                same = [a for a in arrows if HOLDS[a.step].sort == holds.sort]
                frames, size = sum(1 + a.further for a in same), sum(a.size for a in same)
                yield Band(holds.sort, f"{holds.words}: {frames} frames, {size:,} B")
            continue
        yield one
        if looped and one == looped[-1]:
            yield Band("again", f"{loop} more round{'s' if loop > 1 else ''} like this one")


def arrow(one: Arrow, y: int, place: dict[str, int], *, named: bool) -> list[str]:
    """An arrow with its step at the left if it begins one, what it holds and how many bytes at the right."""
    colour, dash, _ = LOOK[HOLDS[one.step].sort]
    start, end, middle = place[one.sender], place[one.receiver], y + 11
    ahead = 1 if end > start else -1
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    tip = f"M{end - ahead * 9} {middle - 4}L{end - ahead} {middle}L{end - ahead * 9} {middle + 4}Z"
    return [
        text(16, y + 15, label(one.step) if named else ""),
        f'<path d="M{start} {middle}H{end - ahead * 8}" stroke="{colour}" stroke-width="1.8" fill="none"{dashes}/>',
        f'<circle cx="{start}" cy="{middle}" r="2.6" fill="{colour}"/><path d="{tip}" fill="{colour}"/>',
        text(max(place.values()) + 54, y + 15, f"{HOLDS[one.step].words}, {one.size:,} B", fill=colour),
    ]


def legend(arrows: list[Arrow], y: int) -> list[str]:
    """The looks that occur in a picture."""
    parts, x = [], 16
    for sort, (colour, dash, word) in LOOK.items():
        if any(HOLDS[one.step].sort == sort for one in arrows):
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            parts.append(f'<path d="M{x} {y - 4}h26" stroke="{colour}" stroke-width="1.8"{dashes}/>')
            parts.append(text(x + 32, y, word, fill=colour))
            x += 52 + 7 * len(word)
    return parts


def text(
    x: int,
    y: int,
    words: str,
    *,
    size: int = 12,
    anchor: str = "start",
    fill: str = "#222222",
    weight: int = 400,
) -> str:
    style = f' text-anchor="{anchor}"' if anchor != "start" else ""
    style += f' font-size="{size}"' if size != 12 else ""
    style += f' font-weight="{weight}"' if weight != 400 else ""
    return f'<text x="{x}" y="{y}" fill="{fill}"{style}>{escape(words)}</text>'


def spoken(arrows: list[Arrow]) -> str:
    """The picture in words, for who cannot see it and for tests."""
    return "; ".join(
        f"{one.step}: {one.sender} to {one.receiver}, {one.size} bytes"
        + (f", {one.further} more" if one.further else "")
        for one in arrows
    )


def main() -> None:
    for name in FLOWS:
        (HERE / f"flow-{name}.svg").write_text(draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
