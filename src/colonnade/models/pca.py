"""Principal components from one release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.data.encoder import LEAST_GAMMA_NEAREST
from colonnade.errors import InputError
from colonnade.methods.method import Array, TrainedModel
from colonnade.models.discriminant import Reading
from colonnade.models.estimator import Estimator, refuse_labels
from colonnade.models.files.content import Saved
from colonnade.models.fitting import CountsFeatures, NoiseWarning, ReleaseSource, begin, fitted, obtain_for
from colonnade.models.inputs import Rows
from colonnade.models.moments import Scatter, principal_directions
from colonnade.models.release import MomentRelease


@dataclass(eq=False, repr=False)
class PCA(Saved, Estimator):
    """Principal components, and how many of them can be believed.

    `learnable_rank_` is the number of directions that stand out of the noise: eigenvalues of the scatter matrix above
    2s√d. `explained_variance_` is what the rows have along the components returned, with the noise taken out.

    Parameters
    ----------
    n_components
        How many directions to keep; None: as many as can be learned. More are noise, and warned of.
    centre
        Directions around the mean, as in scikit-learn; or, False, around zero, where the mean itself is a direction.
    epsilon, delta, accepted_delta, method, options
        Those of `LogisticRegression`; the method makes a release.

    >>> from colonnade.models.release import EXAMPLE
    >>> model = PCA().fit(EXAMPLE)
    >>> model.learnable_rank_, model.transform({"age": [90]}).round(3).tolist()
    (1, [[1.0]])
    """

    reading = Reading("principal components", "components")

    n_components: int | None = None
    _: KW_ONLY
    centre: bool = True
    epsilon: float = 1.0
    delta: float = 1e-5
    accepted_delta: float | None = None
    method: str = "moments"
    options: Mapping[str, Any] | None = None

    def fit(self, source: MomentRelease | TrainedModel | ReleaseSource, y: None = None) -> Self:
        """Learn from a release with any label or none, or from a federation that makes one."""
        refuse_labels(y)
        count = self.n_components
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1
        ):
            raise InputError(f"n_components = {count!r} is neither None nor a whole number from 1.")
        # Before a release is paid for that could not be used.
        if isinstance(source, MomentRelease):
            self._check_width(source.columns)
        elif isinstance(source, CountsFeatures):
            self._check_width(source.features("pca"))
        release = obtain_for(self, source, "pca", method=self.method)
        if not isinstance(release, MomentRelease):
            raise InputError(f"method = {self.method!r} releases no moments to take directions from.")
        begin(self, release)
        self._check_width(release.columns)
        scatter = _scatter(release)
        coarse = release.gamma < LEAST_GAMMA_NEAREST
        lift = release.rows / (4.0 * release.gamma**2) if coarse else 0.0
        principal = principal_directions(scatter, centre=self.centre, lift=lift)
        kept = principal.learnable if count is None else int(count)
        if kept > principal.learnable or not kept:
            rest = (
                f"the other {kept - principal.learnable} asked for are noise"
                if kept
                else "no component is kept"
            )
            warnings.warn(
                f"{principal.learnable} of {release.columns} directions stand out of the noise; {rest}. More rows or a "
                "larger ε would show more.",
                NoiseWarning,
                stacklevel=2,
            )
        degrees = max(scatter.count - 1.0, 1.0)
        directions = principal.directions[:kept]
        # The largest entry of each direction is positive, so that equal releases look equal.
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
        self.components_ = directions * np.where(largest < 0, -1.0, 1.0)
        self.explained_variance_ = principal.squares[:kept] / degrees
        total = max(principal.total, float(principal.squares.sum()))
        self.explained_variance_ratio_ = principal.squares[:kept] / total if total > 0 else np.zeros(kept)
        self.mean_ = scatter.mean if self.centre else np.zeros(release.columns)
        self.learnable_rank_ = principal.learnable
        self.n_components_ = kept
        return self

    def transform(self, X: Rows) -> Array:
        release = fitted(self, "components_")
        return np.asarray((release.features(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Features again, as far as the components kept can say."""
        fitted(self, "components_")
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)

    def captured_variance(self, X: Rows) -> float:
        """‖DV‖²/‖D‖² of these people around `mean_`: on private people a release, which this does not charge."""
        rows = fitted(self, "components_").features(X) - self.mean_
        whole = float(np.einsum("ij,ij->", rows, rows))
        along = rows @ self.components_.T
        return float(np.einsum("ij,ij->", along, along)) / whole if whole > 0 else 0.0

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        fitted(self, "components_")
        return np.array([f"pca{index}" for index in range(self.n_components_)], dtype=object)

    def _check_width(self, features: int) -> None:
        if self.n_components is not None and self.n_components > features:
            raise InputError(
                f"n_components = {self.n_components}, but there are {features} features. Ask for fewer."
            )


def _scatter(release: MomentRelease) -> Scatter:
    moments = release.plain_moments()
    if moments.count > 0:
        return moments.scatter()
    # Noise has swallowed the number of rows and with it the mean; what is left to look at is G itself.
    return Scatter(
        float(release.rows), np.zeros(release.columns), moments.gram, moments.noise, moments.border
    )
