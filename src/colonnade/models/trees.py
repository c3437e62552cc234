"""Boosted trees from a class-conditional release: trained on synthetic people, checked on others of them, and free.

The release tells of two columns at a time by class, so trees ask two questions: more would learn what the fit made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.arrays import columns_by_name
from colonnade.data.coding import code
from colonnade.errors import BadValues, ColumnMissing, DataError, InputError, NotInstalled
from colonnade.models.estimator import Classifier, at_least, refuse_labels, refuse_rows
from colonnade.models.fitting import PAYS_FROM, begin, fitted, strength_of
from colonnade.models.inputs import Array, Rows
from colonnade.models.release import MomentRelease
from colonnade.models.tables.margins import LevelColumn
from colonnade.models.tables.matched import MANY_COLUMNS, matched_rule
from colonnade.models.tables.synthetic import draw_levels
from colonnade.randomness import SeededRandomness

DEPTH, LEAVES = 2, 4
HELD_OUT = 5
"""One in so many synthetic people is held out: trees stop where they predict these no better."""
PATIENCE = 30
RARE = 0.1
AS_GOOD = 0.002


@dataclass(eq=False, repr=False, kw_only=True)
class GradientBoostedTrees(Classifier):
    """Boosted trees of two questions each, for two classes, from a class-conditional release: the extra `trees`.

    Trained on `rows` people drawn with `seed`: at most `rounds` trees, each counting `rate`. `check_` compares them
    with the linear rule on a held-out part of the drawn table, which says nothing of people; `advice_` says where the
    linear rule is expected to be as good. The second class is predicted where its probability is above `threshold`.

    >>> GradientBoostedTrees(rounds=100).get_params()["rounds"]
    100
    """

    rows: int = 50_000
    rounds: int = 400
    rate: float = 0.05
    threshold: float = 0.5
    seed: int = 0

    def fit(self, release: MomentRelease, y: None = None) -> Self:
        """Draw a table from a class-conditional release, and train on it."""
        refuse_labels(y)
        self._check(release)
        try:
            import lightgbm
        except ImportError:
            raise NotInstalled(
                "boosted trees need the package lightgbm, which is not installed. Install the extra: pip install "
                "'colonnade[trees]'."
            ) from None
        begin(self, release)
        model = release.table_model()
        self.columns_ = model.margins.columns
        levels, classes = draw_levels(model.fit, self.rows, SeededRandomness(f"trees {self.seed}"))
        features = _features(self.columns_, levels)
        held_out = np.arange(self.rows) % HELD_OUT == 0
        training = lightgbm.Dataset(features[~held_out], classes[~held_out], free_raw_data=False)
        validation = lightgbm.Dataset(features[held_out], classes[held_out], reference=training)
        settings = {
            "objective": "binary",
            "max_depth": DEPTH,
            "num_leaves": LEAVES,
            "learning_rate": self.rate,
            "min_data_in_leaf": max(20, self.rows // 500),
            "num_threads": 1,
            "deterministic": True,
            "seed": self.seed,
            "verbosity": -1,
        }
        self.booster_ = lightgbm.train(
            settings,
            training,
            num_boost_round=self.rounds,
            valid_sets=[validation],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        self.classes_ = release.label.values
        linear = matched_rule(model.margins, model.fit)
        parts = [column.codes[codes[held_out]] for column, codes in zip(self.columns_, levels, strict=True)]
        straight = np.concatenate(parts, axis=1) @ linear.coefficients + linear.intercept
        scores = self.booster_.predict(features[held_out], raw_score=True)
        self.check_ = {
            "held_out_rows": int(held_out.sum()),
            "trees": int(self.booster_.best_iteration or self.booster_.num_trees()),
            "auc": _auc(scores, classes[held_out]),
            "linear_auc": _auc(straight, classes[held_out]),
        }
        self.advice_ = self._advice(release)
        gains = self.booster_.feature_importance("gain").astype(np.float64)
        widths = [1 if _is_ordered(column) else len(column.levels) for column in self.columns_]
        owners = np.repeat(np.arange(len(self.columns_)), widths)
        by_column = np.bincount(owners, weights=gains, minlength=len(self.columns_))
        shares = by_column / (float(by_column.sum()) or 1.0)
        order = np.argsort(-shares, kind="stable")
        self.importance_ = {self.columns_[place].name: float(shares[place]) for place in order}
        return self

    def predict_proba(self, X: Rows) -> Array:
        second = 1.0 / (1.0 + np.exp(-self.decision_function(X)))
        return np.column_stack([1.0 - second, second])

    def _scores(self, rows: Rows) -> Array:
        fitted(self, "booster_")
        features = _features(self.columns_, _levels(self.columns_, rows))
        return np.asarray(self.booster_.predict(features, raw_score=True))[:, None]

    def _check(self, release: MomentRelease) -> None:
        if not isinstance(release, MomentRelease):
            refuse_rows(release, "a MomentRelease")
        at_least("rate", self.rate, 0.0, strict=True)
        at_least("threshold", self.threshold, 0.0, strict=True)
        for name, value in (("rows", self.rows), ("rounds", self.rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000_000:
                raise InputError(f"{name} = {value!r} is not a whole number from 1 to 10,000,000.")
        if not release.conditional:
            raise InputError(
                "boosted trees need a class-conditional release: of a plain one a table knows two columns at a time, "
                "whatever the class, and trees learn artefacts of it. Write conditional = true in the job's options, "
                "or use LogisticRegression."
            )
        if len(release.label.classes) != 2:
            raise InputError(
                f"boosted trees here tell two classes apart, and this release has {len(release.label.classes)}. Use "
                "LogisticRegression."
            )

    def _advice(self, release: MomentRelease) -> str:
        """Where the linear rule is expected to be as good, the reason; else nothing."""
        margins = release.margins()
        share = float(margins.counts.min()) / margins.people
        reasons = []
        if len(margins.columns) >= MANY_COLUMNS:
            reasons.append(f"there are {len(margins.columns)} columns, and noise grows with them")
        if share < RARE:
            reasons.append(f"the smaller class has {100 * share:.1f} % of the people")
        if strength_of(margins) < PAYS_FROM:
            reasons.append("the classes hardly stand out of the noise")
        if self.check_["auc"] < self.check_["linear_auc"] + AS_GOOD:
            reasons.append("on the held-out part of the table trees were no better than it")
        if not reasons:
            return ""
        return f"The linear rule is expected to be as good: {'; '.join(reasons)}. Use LogisticRegression."


def _auc(scores: ArrayLike, labels: NDArray[Any]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


def _is_ordered(column: LevelColumn) -> bool:
    return column.column.ordered or len(column.levels) == 2


def _features(columns: Sequence[LevelColumn], levels: Sequence[NDArray[np.int32]]) -> Array:
    """Levels as trees ask about them: the number of an ordered level, an indicator of each other one."""
    parts = []
    for column, codes in zip(columns, levels, strict=True):
        numbers = codes.astype(np.float64)[:, None]
        indicators = (numbers == np.arange(len(column.levels))).astype(float)
        parts.append(numbers if _is_ordered(column) else indicators)
    return np.concatenate(parts, axis=1)


def _levels(columns: Sequence[LevelColumn], rows: Rows) -> list[NDArray[np.int32]]:
    table: Mapping[str, Any] | None = columns_by_name(rows)
    if table is None:
        raise DataError("trees read raw columns by name, and these rows have no names.")
    codes = []
    for column in columns:
        if column.name not in table:
            raise ColumnMissing(f"column {column.name!r} is missing from the rows.")
        coded = code(table[column.name], column.column)
        if coded.problems:
            raise BadValues(f"column {column.name!r}: {coded.problems.sentence}. {coded.problems.advice}")
        codes.append(coded.values)
    return codes
