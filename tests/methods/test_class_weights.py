"""Class weights and thresholds: as in scikit-learn, from noisy counts, and refused before anything is charged."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Exact

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.errors import InputError, LabelMismatch, PlanError
from colonnade.federation.job import Job
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.table import train_with
from colonnade.models.class_weights import weighed, weights_of
from colonnade.protocols.plans import TrainingSpec

PEOPLE = 10_000
JOB = """name = "who buys"
task = "classification"
parties = ["bank", "shop"]
active = "bank"
epsilon = 3.0
method = "moments"
[options]
"""


def federation(people: int = PEOPLE, *, classes: str = '["no", "yes"]') -> Federation:
    rng = np.random.default_rng(5)
    buys = rng.uniform(size=people) < 0.1
    value = np.clip(rng.normal(size=people) * 0.3 + 0.4 * buys - 0.2, -1, 1)
    names = [f"p{number}" for number in range(people)]
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = -1, high = 1}\n'
    label = f'[label]\ncolumn = "buys"\nkind = "classes"\nclasses = {classes}\n'
    bank = {"n": names, "value": value, "buys": np.where(buys, "yes", "no")}
    shop = {"n": names, "value": rng.uniform(-1, 1, people)}
    tables = [
        Table.from_arrays("bank", bank, Schema.parse(text + label)),
        Table.from_arrays("shop", shop, Schema.parse(text)),
    ]
    return Federation(tables, budget=(1000.0, 1e-5))


@pytest.mark.parametrize("method", ["margin", "moments"])
def test_balanced_weights_are_those_of_the_classes_up_to_noise(method: str) -> None:
    # So much ε and so many people that every figure is forty deviations of its noise or more within its bounds.
    source = federation()
    options = MarginOptions(steps=4) if method == "margin" else MomentsOptions()
    found = train_with(
        source, method, TrainingSpec("classification", 50.0, delta=1e-5, options=options, verify="none")
    )
    model, plain = LogisticRegression(class_weight="balanced").fit(found), LogisticRegression().fit(found)
    share = float((np.random.default_rng(5).uniform(size=PEOPLE) < 0.1).mean())
    assert model.class_weight_["yes"] == pytest.approx(0.5 / share, rel=0.2)
    assert model.class_weight_["no"] == pytest.approx(0.5 / (1 - share), rel=0.02)
    assert plain.class_weight_ == {"no": 1.0, "yes": 1.0}
    # Half way between the classes a tenth of the people are of one of them, and weighed they are as many.
    rows = {"bank.value": [0.0], "shop.value": [0.0]}
    assert plain.predict_proba(rows)[0, 1] < 0.3 < 0.35 < model.predict_proba(rows)[0, 1] < 0.65


def test_weights_shift_a_model_as_weighing_people_does() -> None:
    rng = np.random.default_rng(1)
    classes = rng.uniform(size=40_000) < 0.2
    rows = (rng.normal(size=40_000) + 1.5 * classes)[:, None]
    weighted = Exact(C=1e6, class_weight={False: 1.0, True: 6.0}).fit(rows, classes)
    plain = Exact(C=1e6).fit(rows, classes)
    shifted = weighed(plain.intercept_, weights_of({"yes": 6}, ("no", "yes"), None))
    assert shifted == pytest.approx(weighted.intercept_, abs=0.06)
    assert plain.coef_ == pytest.approx(weighted.coef_, abs=0.06)
    assert weighed(np.zeros(3), {"a": 1.0, "b": 2.0, "c": 4.0}) == pytest.approx(np.log([1, 2, 4]))


def test_what_no_classes_have_is_refused_before_anything_is_charged() -> None:
    source = federation(100, classes='["no", "maybe", "yes"]')
    for arguments, error, said in (
        ({"threshold": 0.3}, LabelMismatch, "is for two classes; this label has 3"),
        ({"class_weight": {"yess": 2}}, LabelMismatch, "names 'yess', which is no declared class.*'yes'"),
        ({"class_weight": "balancd"}, InputError, "neither 'balanced' nor a weight for each class"),
        ({"class_weight": {"yes": 0}}, InputError, "a number greater than 0"),
        ({"options": {"threshold": 0.3}}, InputError, "a parameter of LogisticRegression itself"),
    ):
        with pytest.raises(error, match=said):
            LogisticRegression(epsilon=1.0, **arguments).fit(source)
    assert not source.runs and not source.ledgers["bank"].totals()
    with pytest.raises(PlanError, match="which this method does not open"):
        weights_of("balanced", ("no", "yes"), None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("threshold = 1.5", "line 8, options.threshold: threshold = 1.5 is a probability between 0 and 1"),
        ('threshold = "best"', "options.threshold: threshold: found 'best'; rules are balanced, f1"),
        ('threshold = "f1"', "is read from people held out, and none are. Write held_out = 0.2"),
        ('class_weight = "balance"', "neither 'balanced' nor a weight.*Did you mean 'balanced'"),
        ("class_weight = {yes = -1.0}", "class_weight of 'yes': found -1.0"),
    ],
)
def test_a_job_that_asks_for_what_there_is_not_is_told_where(options: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Job.parse(f"{JOB}{options}\n")
