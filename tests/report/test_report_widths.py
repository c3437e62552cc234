"""Tables on the screen are no wider than it, whatever their names are: they shrink, or their rows stack."""

import numpy as np
import pytest
from tables_people import people, release_with

from colonnade.evaluation.estimates import estimate_two_classes
from colonnade.report.describing import description_facts, description_text
from colonnade.report.evaluation import estimate_facts, evaluation_lines
from colonnade.report.plain import table_lines


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_of_a_table_is_wider_than_the_screen(width: int) -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=400)
    classes = (scores + rng.normal(size=400) > 0).astype(np.int64)
    label = ("never was ill in all these years", "was ill at least once in them")
    evaluated = estimate_facts(
        estimate_two_classes(scores, classes, names=label, threshold=0.0, chances=True)
    )
    described = description_facts(release_with(*people(), noise=2.0), name="Columns")
    ids = [
        ("person", "what is predicted", *label),
        *[(f"P{n:06d}", label[0], "0.25", "0.75") for n in range(3)],
    ]
    made = {
        "evaluated": evaluation_lines(evaluated, width),
        "describe": description_text(described, width=width).splitlines(),
        "predict": table_lines(ids, width),
        "without heads": table_lines([("a" * 30, "b" * 30, "c" * 15)], width, heads=False),
    }
    wide = {what: [line for line in lines if len(line) > width] for what, lines in made.items()}
    assert not any(wide.values()), wide
    assert any("AUC" in line for line in made["evaluated"])
