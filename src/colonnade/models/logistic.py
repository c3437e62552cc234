"""Classification from one release, or by any method that trains a linear classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from colonnade.data.declaring import nearest_name
from colonnade.errors import InputError
from colonnade.federation.federation import Federation
from colonnade.methods.method import Array, TrainedModel
from colonnade.models import fitting
from colonnade.models.class_weights import ClassWeight, check_fits, check_weight, weighed, weights_of
from colonnade.models.discriminant import Reading, probabilities
from colonnade.models.estimator import Classifier, at_least, refuse_labels
from colonnade.models.files.content import Saved
from colonnade.models.inputs import Rows
from colonnade.models.release import MomentRelease
from colonnade.planning.forecast import default_of


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(Saved, Classifier):
    """A linear classifier with logistic probabilities, for two classes or more.

    `coef_` and `intercept_` are log-odds, as in scikit-learn. Two classes: least squares on the indicator of the second
    class, where the second-order expansion of the logistic loss has its minimum, and the log-odds that its moments
    determine (`binary_rule`). More: linear discriminant analysis (`multiclass_rule`).

    Parameters
    ----------
    epsilon, delta, accepted_delta
        The price of a release from a federation, for the server and for readers; δ once more where it is not below one
        over the number of rows.
    floor, ridge
        Eigenvalues of the scatter matrix are raised to this many standard deviations of the noise, None: min(2√d, 12)
        (`default_floor`); the ridge is added after that, in units of Σxxᵀ.
    threshold
        Two classes only: the second is predicted where its probability is above this.
    class_weight
        "balanced", by the noisy sizes that training opened, or a weight for each class, by which its odds are
        multiplied.
    unbias
        Whether the shift of the scores that noise causes on average is taken out.
    multiclass
        More than two classes only: "discriminant", or "one-vs-rest" for least squares on the indicator of each class,
        which does not assume one covariance but cannot find a class that lies between others.
    rule
        Two classes, from a release: "least-squares" as above; "matched" for logistic regression whose gradient vanishes
        on the released sums by class (`colonnade.models.tables.matched`), which needs bins or categories; "auto" for
        whichever is expected to be better. `rule_` says which and why.
    label
        Which label to learn, of a release or a federation with several; None: the first.
    method, options
        How to train on a federation (`colonnade.methods.table`), and what that method lets one choose. None: `margin`
        where it can be planned and is not worse in trials on synthetic people, else `moments`; `method_` and `because_`
        say which and why. `floor`, `ridge`, `unbias` and `multiclass` ask for methods that release moments.

    >>> from fractions import Fraction
    >>> from colonnade.data import ClassLabel, Encoder, LabelBlock, NumericColumn, Quantizer
    >>> encoder = Encoder((NumericColumn("age", low=20, high=60),), mode="linear")
    >>> label = LabelBlock(ClassLabel("buys", classes=("no", "yes")))
    >>> ages, buys = [22, 30, 35, 44, 52, 58], [0, 0, 1, 0, 1, 1]
    >>> features = Quantizer(encoder, attributes_total=1, gamma=4096).quantize({"age": ages})
    >>> rows = np.column_stack([features, label.quantize(buys, 4096)])
    >>> release = MomentRelease(
    ...     matrix=rows.T @ rows, gamma=4096, rows=6, encoders=(("shop", encoder),), label=label,
    ...     mu=Fraction(0), guarantees=(), plan="", run="", reproducible=False,
    ... )
    >>> LogisticRegression().fit(release).predict({"age": [25, 55]}).tolist()
    ['no', 'yes']
    """

    reading = Reading("a linear classifier with logistic probabilities", "probabilities")

    epsilon: float = 1.0
    delta: float = 1e-5
    accepted_delta: float | None = None
    floor: float | None = None
    ridge: float = 0.0
    threshold: float = 0.5
    class_weight: ClassWeight = None
    unbias: bool = True
    multiclass: str = "discriminant"
    rule: str = "auto"
    label: str | None = None
    method: str | None = None
    options: Mapping[str, Any] | None = None

    def fit(self, source: MomentRelease | TrainedModel | fitting.ReleaseSource, y: None = None) -> Self:
        """Learn from a release, or from a federation that makes one for (epsilon, delta), kept in `releases_`."""
        refuse_labels(y)
        self._check()
        method, because = self._method(source)
        self._check_classes(source)
        result = fitting.obtain_for(self, source, "classification", method=method)
        fitting.begin(self, result)
        self.method_, self.because_ = method, because
        names = self.frame_.label.classes
        check_fits(self.threshold, self.class_weight, names)
        if isinstance(result, MomentRelease):
            result = result.for_label(self.label)
            self.rule_, scores = fitting.solve(
                result,
                self.rule,
                floor=self.floor,
                ridge=self.ridge,
                unbias=self.unbias,
                multiclass=self.multiclass,
            )
            self.coef_, self.intercept_ = scores.coefficients, scores.intercepts
            counts: Array | None = result.class_moments().clear_counts
        else:
            self.coef_, self.intercept_ = result.coefficients, result.intercepts
            counts = result.counts
        self.class_weight_ = weights_of(self.class_weight, names, counts)
        self.intercept_ = weighed(self.intercept_, self.class_weight_)
        self.classes_ = self.frame_.label.values
        return self

    def _method(self, source: MomentRelease | TrainedModel | fitting.ReleaseSource) -> tuple[str, str]:
        """The method that was named, or the default and why: moments where what is asked is about a release."""
        if self.method is not None:
            return self.method, ""
        given = self.floor is not None or self.ridge or not self.unbias or self.options is not None
        about_a_release = given or self.multiclass != "discriminant" or self.rule != "auto"
        # Of what is not a number is said where it is asked for.
        numbers = all(isinstance(value, int | float) for value in (self.epsilon, self.delta))
        if not (isinstance(source, Federation) and numbers):
            return "moments", ""
        if about_a_release:
            return "moments", "what was asked for is about a release"
        if len(fitting.declared_labels(source)) > 1:
            return "moments", "one release is for all labels"
        return default_of(source, "classification", epsilon=self.epsilon, delta=self.delta)

    def _check_classes(self, source: MomentRelease | TrainedModel | fitting.ReleaseSource) -> None:
        """What does not fit the declared classes is refused before it is paid for."""
        given = sorted({"threshold", "class_weight"} & set(self.options or ()))
        if given:
            raise InputError(f"options name {given[0]}, which is a parameter of LogisticRegression itself.")
        labels = fitting.declared_labels(source) if isinstance(source, Federation) else ()
        for label in labels[:1] if self.label is None else labels:
            if label.classes and self.label in (None, label.column):
                check_fits(self.threshold, self.class_weight, label.classes)

    def predict_proba(self, X: Rows) -> Array:
        """One probability per class, in the order of `classes_`."""
        return probabilities(self._scores(X))

    def predict_log_proba(self, X: Rows) -> Array:
        return np.asarray(np.log(self.predict_proba(X)))

    def _scores(self, rows: Rows) -> Array:
        release = fitting.fitted(self, "coef_")
        return np.asarray(release.features(rows) @ self.coef_.T + self.intercept_)

    def _check(self) -> None:
        at_least("ridge", self.ridge, 0.0)
        for name, value, known in (
            ("multiclass", self.multiclass, fitting.MULTICLASS),
            ("rule", self.rule, fitting.RULES),
        ):
            if value not in known:
                close = nearest_name(str(value), known)
                raise InputError(f"{name} = {value!r} is not one of {', '.join(known)}.{close}")
        if self.floor is not None:
            at_least("floor", self.floor, 0.0)
        at_least("threshold", self.threshold, 0.0, strict=True)
        if not self.threshold < 1.0:
            raise InputError(f"threshold = {self.threshold!r} is a probability below 1.")
        check_weight(self.class_weight)
