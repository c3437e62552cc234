"""Boosted trees as facts, text and a page: which columns they ask about, and what each level of one adds."""

from __future__ import annotations

from markupsafe import Markup

from colonnade.models.fitting import fitted
from colonnade.models.trees import GradientBoostedTrees, is_ordered
from colonnade.report.charts import Axes, Chart, Series, svg
from colonnade.report.facts import Facts
from colonnade.report.html import render
from colonnade.report.pictures import effect_picture, effect_scale
from colonnade.report.plain import table_lines, wrapped

READ = (
    "Both figures are of invented people who were held out. They say whether trees learnt more than the linear rule "
    "from this release, and flatter both: judge them on real people. Nothing was charged."
)


def tree_facts(model: GradientBoostedTrees, *, name: str) -> Facts:
    """What trees are, how they stand against the linear rule, and which columns they ask about."""
    fitted(model, "booster_")
    check = model.check_
    return {
        "name": name,
        "classes": [str(one) for one in model.classes_],
        "told": (
            f"{check['trees']} trees of two questions, trained on {model.rows} invented people. AUC "
            f"{check['auc']:.3f}, of the linear rule from the same release {check['linear_auc']:.3f}."
        ),
        "check": dict(check),
        "advice": model.advice_,
        "importance": dict(model.importance_),
        "effects": {name: list(levels) for name, levels in model.effects_.items()},
        "extra_epsilon": 0,
        "read": READ,
        "privacy": str(model.privacy_).splitlines(),
    }


def tree_text(facts: Facts, *, width: int | None = None) -> str:
    advice = [facts["advice"]] if facts["advice"] else []
    lines = [*wrapped([facts["told"], *advice], width), "", "Share of what the trees gained by asking about"]
    shares = [(name, f"{100 * share:.1f} %") for name, share in facts["importance"].items()]
    lines += table_lines(shares, width, heads=False)
    return "\n".join([*lines, "", *wrapped([facts["read"], *facts["privacy"]], width), ""])


def tree_page(model: GradientBoostedTrees, facts: Facts) -> str:
    return render(
        "trees.html",
        facts,
        importance=Markup(importance_picture(model, narrow=True)),
        effects=effect_pictures(model),
    )


def importance_picture(model: GradientBoostedTrees, *, narrow: bool = False) -> str:
    """Shares of what the trees gained by asking about each column, from the largest down, as one SVG element."""
    fitted(model, "booster_")
    lines = tuple(
        Series(name, (float(place), float(place)), (0.0, share))
        for place, (name, share) in enumerate(model.importance_.items(), start=1)
    )
    chart = Chart("Importance", Axes("column, by rank", "share of the gain", whole_x=True), lines)
    return svg(chart, narrow=narrow)


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
