"""CSV that a spreadsheet opens: names stay names, numbers stay numbers."""

import csv
import io

import numpy as np
import pytest

from colonnade.data.files import csv_text
from colonnade.evaluation.predict import Scores, scores_csv


@pytest.mark.parametrize("name", ["=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula(name: str) -> None:
    ((read,),) = csv.reader(io.StringIO(csv_text([(name,)]), newline=""))
    assert read == f"'{name}".replace("\r", " ")


@pytest.mark.parametrize("value", [-1, -2.5, "-2.5", "+3e-5", "-inf", "", "nurse", "a=1"])
def test_numbers_and_names_stay_as_they_are(value: object) -> None:
    assert csv_text([(value, "end")]) == f"{value},end\n"


def test_scores_have_no_formula_of_an_id_or_a_class() -> None:
    found = Scores(("=A1", "C2"), ("@low",), np.array([[-0.5], [0.5]]), ("=2", "high"), "", "", 0)
    assert scores_csv(found) == "id,'@low,predicted\n'=A1,-0.5,'=2\nC2,0.5,high\n"
