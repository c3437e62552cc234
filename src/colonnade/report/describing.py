"""What a release says of columns, as facts, as text and as a page with pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from colonnade.errors import DataError
from colonnade.models.inputs import units
from colonnade.models.release import MomentRelease
from colonnade.models.tables.margins import description, is_levelled
from colonnade.report.charts import Axes, Chart, Series, svg
from colonnade.report.html import render
from colonnade.report.plain import table_lines, wrapped

Facts = dict[str, Any]

SHOWN_PAIRS = 12
READ = (
    "± is one standard deviation of the noise that protects people. It does not say how other people would have "
    "changed a figure. A negative share or count is one that the noise hides."
)
DRAWN = "shown: how far pairs of columns are from having nothing to do with each other (Cramér's V, noise taken out)"


def description_facts(release: MomentRelease, *, name: str) -> Facts:
    """Everything that a release says of its columns in bins and categories; the others are named as left out."""
    columns = units(release.encoders)
    known = [unit.name for unit in columns if is_levelled(unit)]
    if not known:
        raise DataError(
            "this release has no column in bins or categories, of which shares could be told. Declare "
            'kind = "bins" with ordered = true for the next one.'
        )
    whole = release if len(known) == len(columns) else release.select(known)
    return {
        "name": name,
        "run": release.run,
        **description(whole.margins()),
        "left_out": [unit.name for unit in columns if not is_levelled(unit)],
        "privacy": str(release.privacy).splitlines(),
        "read": READ,
    }


def description_text(facts: Facts, *, width: int | None = None) -> str:
    lines = [f"{facts['people']:.0f} ± {facts['people_noise']:.0f} people"]
    for one in facts["label"]:
        lines.append(f"  {one['level']}: {one['count']:.0f} ± {one['noise']:.0f}")
    for column in facts["columns"]:
        sentence = f"{column['column']} ({column['party']}){_figures(column)}"
        lines += ["", *wrapped([sentence], width, indent="")]
        levels = [_level_cells(column, place) for place in range(len(column["levels"]))]
        lines += table_lines(levels, width, heads=False)
    lines += ["", *wrapped([f"Pairs of columns, the strongest first ({DRAWN})"], width, indent="")]
    pairs = []
    for pair in facts["pairs"][:SHOWN_PAIRS]:
        correlation = ""
        if "correlation" in pair:
            correlation = f"correlation {pair['correlation']:+.3f} ± {pair['correlation_noise']:.3f}"
        pairs.append((" and ".join(pair["columns"]), f"{pair['association']:.3f}", correlation))
    lines += table_lines(pairs, width, heads=False)
    if len(facts["pairs"]) > SHOWN_PAIRS:
        lines.append(
            f"  and {len(facts['pairs']) - SHOWN_PAIRS} more; --json has all of them, with their two-way tables"
        )
    if facts["left_out"]:
        lines += ["", f"Left out, because they are coded as numbers: {', '.join(facts['left_out'])}"]
    return "\n".join([*lines, "", *wrapped([facts["read"], *facts["privacy"]], width)])


def description_page(facts: Facts) -> str:
    columns, pairs = [], []
    for column in facts["columns"]:
        picture = Markup(svg(share_chart(column), narrow=True))
        cells = (_level_cells(column, place) for place in range(len(column["levels"])))
        rows = [(name, *(cell.removeprefix("weight of evidence ") for cell in rest)) for name, *rest in cells]
        columns.append({**column, "figures": _figures(column), "picture": picture, "rows": rows})
    for pair in facts["pairs"][:SHOWN_PAIRS]:
        counted = zip(pair["levels"][0], pair["counts"], pair["noise"], strict=True)
        rows = [
            (level, *(f"{count:.0f} ± {noise:.0f}" for count, noise in zip(counts, noises, strict=True)))
            for level, counts, noises in counted
        ]
        pairs.append({**pair, "rows": rows})
    return render("description.html", facts, run=facts["run"], columns=columns, pairs=pairs)


def share_chart(column: Mapping[str, Any]) -> Chart:
    places = tuple(float(place) for place in range(1, len(column["levels"]) + 1))
    shares = tuple(level["share"] for level in column["levels"])
    spreads = tuple(level["noise"] for level in column["levels"])
    line = Series("share ± noise", places, shares, spreads=spreads)
    return Chart(column["column"], Axes("level", "share of the people", whole_x=True), (line,))


def _figures(column: Mapping[str, Any]) -> str:
    figures = []
    if "mean" in column:
        figures.append(f"mean {column['mean']:.4g} ± {column['mean_noise']:.2g}")
    figures.append(f"variance inflation at least {column['variance_inflation']:.2f}")
    if "information_value" in column:
        hidden = column["hidden_levels"]
        least = "at least " if hidden else ""
        value, noise = column["information_value"], column["information_value_noise"]
        figures.append(
            f"information value {least}{value:.3f} ± {noise:.3f}" + (f" ({hidden} hidden)" if hidden else "")
        )
    return ": " + ", ".join(figures)


def _level_cells(column: Mapping[str, Any], place: int) -> tuple[str, ...]:
    level = column["levels"][place]
    cells = (level["level"], f"{100 * level['share']:.2f} %", f"± {100 * level['noise']:.2f}")
    if "weight_of_evidence" not in column:
        return cells
    weight = column["weight_of_evidence"][place]
    sentence = (
        "hidden by noise" if weight["weight"] is None else f"{weight['weight']:+.2f} ± {weight['noise']:.2f}"
    )
    return (*cells, f"weight of evidence {sentence}")
