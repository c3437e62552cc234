"""What meets whoever gives rows to a model, or cuts a federation into folds: where scikit-learn's habits end."""

from __future__ import annotations

from typing import Any, NoReturn

from colonnade.errors import RowsInFit

INSTEAD = (
    "Rows are never given to a model: they stay with the parties. Instead of a search over parameters, `ridge_path` "
    "fits one release at many strengths at no further cost; instead of cross-validation, `held_out` keeps people aside "
    "and `colonnade evaluate` judges a model, charged once."
)


def refuse_rows(given: object, takes: str) -> NoReturn:
    """Say what `fit` takes instead."""
    raise RowsInFit(f"fit takes {takes}, not {type(given).__name__}. {INSTEAD}")


def refuse_labels(y: object) -> None:
    """Refuse labels beside what is fitted on: they are with the party that holds them."""
    if y is not None:
        raise RowsInFit(f"fit takes no labels: they stay with the party that holds them. {INSTEAD}")


class NoRows:
    """What is no array of rows, and says so to whoever takes it for one, as a search over parameters would."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refused: there are no rows to take out."""
        raise RowsInFit(f"a {type(self).__name__} is no array of rows. {INSTEAD}")
