"""Pictures of boosted trees: which columns they ask about, and what each level of one adds."""

from __future__ import annotations

from markupsafe import Markup

from colonnade.learn.fitting import fitted
from colonnade.learn.trees import GradientBoostedTrees, is_ordered
from colonnade.report.charts import Axes, Chart, Line, svg
from colonnade.report.pictures import effect_picture, effect_scale


def importance_picture(model: GradientBoostedTrees) -> str:
    """Shares of what the trees gained by asking about each column, from the largest down, as one SVG element."""
    fitted(model, "booster_")
    lines = tuple(
        Line(name, (float(place), float(place)), (0.0, share))
        for place, (name, share) in enumerate(model.importance_.items(), start=1)
    )
    return svg(Chart("Importance", Axes("column, by rank", "share of the gain", whole_x=True), lines))


def effect_pictures(model: GradientBoostedTrees) -> dict[str, Markup]:
    """By column, what its levels add to the log-odds of the second class: one scale for all, the strongest first."""
    fitted(model, "booster_")
    columns = {
        column.name: {
            "column": column.name,
            "ordered": is_ordered(column),
            "points": [
                {"at": one["level"], "effect": one["effect"], "half_width": None}
                for one in model.effects_[column.name]
            ],
        }
        for column in model.columns_
    }
    scale = effect_scale(columns.values())
    return {name: effect_picture(columns[name], scale) for name in model.importance_}
