"""Classification and regression by networks that no party holds whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from colonnade.errors import InputError, ModelError, PlanError
from colonnade.evaluation.scores import JointScores, trained_people
from colonnade.federation.holdout import keep_parts, keep_people
from colonnade.methods.method import Array, TrainedModel
from colonnade.methods.network.network_file import (
    KINDS,
    NetworkFile,
    NetworkModel,
    network_file,
    network_parts,
)
from colonnade.methods.network.plan import Mechanism, NetworkOptions, Regime, need_networks
from colonnade.models import estimator
from colonnade.models.discriminant import probabilities
from colonnade.models.estimator import Classifier, Estimator, Regressor, at_least, begin_with
from colonnade.models.files.document import Privacy
from colonnade.models.fitting import fitted
from colonnade.models.inputs import Rows
from colonnade.protocols.plans import Task, TrainingSpec

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation
    from colonnade.methods.network.network import Network


@dataclass(eq=False, repr=False, kw_only=True)
class _Neural(Estimator):
    _task: ClassVar[Task]

    epsilon: float | None = 8.0
    delta: float | None = None
    accepted_delta: float | None = None
    regime: Regime = "frozen"
    mechanism: Mechanism = "poisson-binomial"
    networks: Any = None
    fusion: Any = None
    image: tuple[int, int, int] | None = None
    embedding: int = 16
    trials: int = 16
    beta: float | None = None
    label_epsilon: float | None = None
    local_share: float = 0.5
    epochs: int = 10
    batch: int = 100
    learning_rate: float = 0.01
    momentum: float = 0.9
    clip: float = 1.0
    held_out: float = 0.0
    patience: int = 3
    gradient_bits: int = 32
    parameters: int | None = None
    coalitions: tuple[tuple[str, ...], ...] = ()
    checkpoint: str | Path | None = None
    seed: int = 0

    def fit(self, source: Federation | TrainedModel, y: None = None) -> Self:
        """Train on a federation, which charges every party's ledger for the whole schedule before it starts.

        With `checkpoint`, a fit that stopped goes on when it is called again with the same parameters: nothing is
        charged twice, and no batch that was released is drawn again. A trained network is taken as it is.
        """
        estimator.refuse_labels(y)
        trained = self.learn(source) if not isinstance(source, TrainedModel) else source
        if not isinstance(trained, NetworkModel) or trained.network.design.task != self._task:
            raise InputError(
                f"this model is not a network for {self._task}; {type(self).__name__} takes no other."
            )
        self._take(trained.network, trained.privacy, trained.statement)
        self.run_ = trained.run
        self.plan_ = trained.run.plan if trained.run is not None else None
        self.history_ = trained.history
        self.communication_ = trained.communication
        self.n_epochs_ = trained.epochs
        return self

    def learn(self, federation: Federation) -> NetworkModel:
        need_networks()
        from colonnade.federation.federation import Federation as Parties
        from colonnade.methods.network.training import Settings, modules_for, train

        if not isinstance(federation, Parties):
            estimator.refuse_rows(federation, "a Federation")
        if self.networks is not None and not isinstance(self.networks, str | Mapping):
            raise InputError(
                f"networks = {type(self.networks).__name__}: a name, or a mapping from parties to torch modules."
            )
        own = None if isinstance(self.networks, str) else self.networks
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
        settings, options = Settings(own, self.fusion, checkpoint), self._options()
        if self.parameters is None:
            modules = modules_for(federation.tables, options, settings).values()
            most = max([1, *(sum(each.numel() for each in module.parameters()) for module in modules)])
            options = options.model_copy(update={"parameters": most})
        spec = TrainingSpec(
            self._task,
            # The paper's regime is not calibrated to any ε.
            1.0 if self.regime == "paper" or self.epsilon is None else self.epsilon,
            delta=self.delta,
            accepted_delta=self.accepted_delta,
            options=options,
            alignment=federation.alignment,
            public=federation.group.owners if federation.public else (),
        )
        return train(federation, spec, settings)

    def _options(self) -> NetworkOptions:
        """The parameters as a job would have them; what no form has checked the plan refuses by name."""
        if self.epsilon is not None:
            at_least("epsilon", self.epsilon, 0.0, strict=True)
        elif self.regime != "paper":
            raise PlanError(f"regime {self.regime!r} needs ε. Try 8.")
        at_least("learning_rate", self.learning_rate, 0.0, strict=True)
        at_least("momentum", self.momentum, 0.0)
        at_least("patience", self.patience, 1)
        if not self.momentum < 1:
            raise InputError(f"momentum = {self.momentum!r} is a number from 0 to below 1.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(
                f"seed = {self.seed!r} is not a whole number from 0. It is public: orders and first weights."
            )
        given = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        names = set(NetworkOptions.model_fields) - {"networks", "image", "coalitions"}
        return NetworkOptions.model_construct(
            networks=self.networks if isinstance(self.networks, str) else None,
            image=None if self.image is None else list(self.image),
            coalitions=[list(members) for members in self.coalitions],
            **{name: value for name, value in given.items() if name in names},
        )

    def _take(self, network: Network, privacy: Privacy, statement: str) -> None:
        begin_with(self, network.frame, privacy, split=True)
        self.network_, self.statement_, self.plan_ = network, statement, None
        self.networks_, self.fusion_ = dict(network.locals), network.fusion
        if self.frame_.label.classes:
            self.classes_ = self.frame_.label.values

    def save(self, path: str | Path) -> None:
        """Write the whole network: `path` as JSON, its weights beside it as safetensors.

        It holds every party's part and the fusion model, which no guarantee covers showing to anybody.
        """
        fitted(self, "network_")
        network_file(
            type(self).__name__, self.network_, self.privacy_, regime=self.statement_, run=self._run_name
        ).save(Path(path))

    def save_parts(self, folder: str | Path) -> None:
        """Write each party's part alone, as `colonnade train` does, so that `colonnade predict` takes the folder."""
        fitted(self, "network_")
        run = self._run_name
        keep_parts(
            Path(folder),
            network_parts(type(self).__name__, self.network_, self.privacy_, regime=self.statement_, run=run),
        )
        if self.run_ is not None:
            keep_people(Path(folder), self.run_.aligned, run=run)

    @classmethod
    def load(cls, path: str | Path, *, networks: Mapping[str, Any] | None = None, fusion: Any = None) -> Self:
        """The network in a file that `save` wrote; modules of your own are to be given, since files hold no code."""
        file = NetworkFile.load(Path(path))
        if file.party is not None:
            raise ModelError(
                f"{path} is {file.party}'s part of a network, and a part alone scores nobody. Score between the "
                "parties."
            )
        if file.kind != cls.__name__:
            raise ModelError(f"{path} holds a {file.kind}, not a {cls.__name__}.")
        design = file.design
        learner = cls(
            regime=design.regime,
            networks=networks or design.networks,
            fusion=fusion,
            image=design.image,
            embedding=design.embedding,
        )
        learner._take(file.network(networks=networks, fusion=fusion), file.privacy, file.regime)
        return learner

    @property
    def _run_name(self) -> str:
        return self.run_.name if self.run_ is not None else ""

    def joint_scores(
        self,
        people: Federation,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        accepted_delta: float | None = None,
    ) -> JointScores:
        """Scores of people whose columns lie with the same parties; only the label holder sees them.

        Their `sums` are what `decision_function` or `predict` would give. Exact scores disclose, for each person, the
        others' sum of embeddings to the label holder, and are refused for people this model was trained on; with ε
        the sums carry noise and are charged. A model of the paper's regime scores public data only.
        """
        fitted(self, "network_")
        known = None if self.run_ is None else trained_people(self.run_)
        return self.network_.score_people(
            people, trained_on=known, epsilon=epsilon, delta=delta, accepted_delta=accepted_delta
        )

    def _scores(self, rows: Rows) -> Array:
        frame = fitted(self, "network_")
        return np.asarray(self.network_.scores(frame.features(rows)))


class NeuralClassifier(_Neural, Classifier):
    """A network over the columns of all parties, for two classes or more.

    Every party's module maps its columns to `embedding` numbers in [−1, 1]; the label holder sees noisy sums of them
    and trains the fusion model (`methods.network.protocol`). `regime` says what is protected, and `statement_`
    repeats it. ε and δ are for what the label holder learns about one party's part of one record; `privacy_` has the
    other observers and units. `networks` is "random" (one public random layer, where networks are frozen the default),
    "dense" (three layers, the default where they learn), "convolutional" or "resnet18" (both with `image`), or a
    mapping from parties to torch modules.

    `predict` and its kin see all parties' rows in one place; between parties, scores come from
    `colonnade.protocols.joint_scores`.

    >>> from colonnade import Federation, Schema, Table
    >>> def declared(column, label=""):
    ...     return Schema.parse(f'id = "n"\\ncolumns.{column} = {{kind = "numeric", low = 0, high = 9}}\\n{label}')
    >>> classes = '[label]\\ncolumn = "buys"\\nkind = "classes"\\nclasses = ["no", "yes"]'
    >>> ages = list(range(10)) * 20
    >>> buys = ["yes" if age > 4 else "no" for age in ages]
    >>> bank = Table.from_arrays("bank", {"age": ages, "buys": buys}, declared("age", classes))
    >>> shop = Table.from_arrays("shop", {"spent": ages}, declared("spent"))
    >>> federation = Federation([bank, shop], budget=(60.0, 1e-4))
    >>> model = NeuralClassifier(epsilon=20.0, embedding=1, epochs=2).fit(federation)
    >>> model.predict({"age": [1, 8], "spent": [1, 8]}).shape
    (2,)
    """

    reading = KINDS["NeuralClassifier"]

    _task = "classification"

    def predict_proba(self, X: Rows) -> Array:
        return probabilities(self._scores(X))


class NeuralRegressor(_Neural, Regressor):
    """A network over the columns of all parties, for a number; see `NeuralClassifier`.

    >>> from colonnade import Federation, Schema, Table
    >>> def declared(column, label=""):
    ...     return Schema.parse(f'id = "n"\\ncolumns.{column} = {{kind = "numeric", low = 0, high = 9}}\\n{label}')
    >>> real = '[label]\\ncolumn = "pays"\\nkind = "real"\\nlow = 0\\nhigh = 9'
    >>> ages = list(range(10)) * 20
    >>> bank = Table.from_arrays("bank", {"age": ages, "pays": ages}, declared("age", real))
    >>> shop = Table.from_arrays("shop", {"spent": ages}, declared("spent"))
    >>> federation = Federation([bank, shop], budget=(60.0, 1e-4))
    >>> NeuralRegressor(epsilon=20.0, embedding=1, epochs=2).fit(federation).predict({"age": [1], "spent": [1]}).shape
    (1,)
    """

    reading = KINDS["NeuralRegressor"]

    _task = "regression"

    def predict(self, X: Rows) -> Array:
        return self._scores(X)[:, 0]
