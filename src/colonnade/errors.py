"""Every error a user of Colonnade can meet, by family and by number.

Families are in hundreds, and have an exit code each: input 3, plans 4, privacy 5, ledgers 6, protocols 7. A class says
what went wrong, and errors.toml why, with an example and what to do.

A message says what was asked, what was found and what to do; it names file, column, party and step, and shows no
secret, share or row. `colonnade explain E311` says more about a number; no number is given to another mistake later.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import ClassVar


class ColonnadeError(Exception):
    """The root of the tree; `exit_code` is what the command line returns, `number` what `colonnade explain` takes.

    `for_peers` says whether the message may be told to other parties. What a party's data, files, budget or ledger
    are like is its own business: of such errors peers learn that it stopped, and `family`, in the coarsest words.
    """

    exit_code: ClassVar[int] = 1
    for_peers: ClassVar[bool] = False
    number: ClassVar[str] = "E100"
    family: ClassVar[str] = "ColonnadeError"

    def __init_subclass__(cls, *, number: str) -> None:
        super().__init_subclass__()
        cls.number = number


class InputError(ColonnadeError, number="E300"):
    """What was asked cannot be done as asked."""

    exit_code = 3
    family = "InputError"


class NameInUse(InputError, number="E301"):
    """A file or folder of that name is there already, and is left as it is."""


class CannotWrite(InputError, number="E302"):
    """A file or folder cannot be written."""


class NotInstalled(InputError, number="E303"):
    """An optional package that this needs is not installed."""


class RowsInFit(InputError, TypeError, number="E304"):
    """Rows or labels were given to a model, which is fitted on a federation or a release."""


class UnknownParameter(InputError, ValueError, number="E305"):
    """An estimator was given a parameter that it does not have."""


class DataError(InputError, number="E310"):
    """A table, a column or a value is not as declared."""

    family = "DataError"


class DataMissing(DataError, number="E311"):
    """There is no such file."""


class DataUnreadable(DataError, number="E312"):
    """A file or a query is there and cannot be read, or holds no rows."""


class ColumnMissing(DataError, number="E313"):
    """A declared column, or the id column, is not in the data."""


class BadIds(DataError, number="E314"):
    """Ids are empty, repeated, or of a kind that is not an id."""


class BadValues(DataError, number="E315"):
    """Values of a column are not as its schema declares them."""


class PeopleDiffer(DataError, number="E316"):
    """The parties do not hold the same people, or not in the same order."""


class DrownedByNoise(DataError, number="E317"):
    """A release is so noisy that nothing can be learnt from it."""


class QueryRefused(DataError, number="E318"):
    """A query is not one SELECT, takes several rows together unacknowledged, or gives other rows at each reading."""


class NotConverged(DataError, number="E319"):
    """A fit to a release came no nearer to it than nothing would."""


class ModelError(DataError, number="E320"):
    """A model, a release or a record that a run left is not what was asked for."""


class ModelDamaged(ModelError, number="E321"):
    """Such a file is cut off, or was altered after it was saved."""


class ModelVersion(ModelError, number="E322"):
    """Such a file was written by a version of Colonnade whose files this one does not read."""


class SchemaError(InputError, number="E330"):
    """A declaration about columns is missing or wrong."""

    family = "SchemaError"


class Misdeclared(SchemaError, number="E331"):
    """A declaration that contradicts itself; `where` is the path of its key in a schema file."""

    def __init__(self, where: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.where = where


class LeftBlank(SchemaError, number="E332"):
    """A draft has blanks that only a person can fill in."""


class JobError(InputError, number="E340"):
    """A job, party or policy file is missing or wrong."""

    family = "JobError"


class PartyMismatch(JobError, number="E341"):
    """A file belongs to another party, or two files or parties claim the same thing."""


class FormError(SchemaError, JobError, number="E350"):
    """A file is not of the form it must have; the mistakes are the same in jobs, schemas, party files and policies."""

    family = "FormError"


class FileMissing(FormError, number="E351"):
    """There is no such file, or it cannot be opened."""


class NotTOML(FormError, number="E352"):
    """The file is not TOML."""


class UnknownKey(FormError, number="E353"):
    """A key that nothing reads."""


class MissingKey(FormError, number="E354"):
    """A key that must be there is not."""


class WrongType(FormError, number="E355"):
    """A value is not of the type that its key takes."""


class UnknownChoice(FormError, number="E356"):
    """A value is not one of the choices of its key."""


class OutOfRange(FormError, number="E357"):
    """A number that no plan could use."""


class KitError(InputError, number="E360"):
    """A kit, a certificate or an invitation to a federation is missing or wrong."""


class PlanError(ColonnadeError, number="E400"):
    """The numbers of a plan do not fit together."""

    exit_code = 4
    for_peers = True
    family = "PlanError"


class FieldTooSmall(PlanError, number="E401"):
    """The integers of this plan could wrap around in its field."""


class DeltaTooLarge(PlanError, number="E402"):
    """δ is not below one over the number of people."""


class OnlyForPublicData(PlanError, number="E403"):
    """What was asked protects nobody, and not every party declared its data public."""


class LabelMismatch(PlanError, number="E404"):
    """The label does not fit the task or the method, or nobody or somebody else declares it."""


class GroupMismatch(PlanError, number="E405"):
    """Who takes part, who keeps shares and how many may collude do not fit together."""


class NoNoiseFits(PlanError, number="E406"):
    """No noise that can be drawn keeps to this ε."""


class TooMuchMemory(PlanError, number="E407"):
    """A plan needs more memory than this machine has."""


class TooFewPeople(PlanError, number="E408"):
    """A plan is for so few people that its noise hides whatever they are like."""

    # Before people are matched, how many there are at most is one party's own number of rows.
    for_peers = False


class PrivacyError(ColonnadeError, number="E500"):
    """A release is refused."""

    exit_code = 5
    family = "PrivacyError"


class BudgetExceeded(PrivacyError, number="E501"):
    """A ledger has less left than the release costs."""

    family = "BudgetExceeded"


class NotMasked(PrivacyError, number="E502"):
    """Opening this value would show more than its secret."""

    family = "NotMasked"


class PolicyRefused(PrivacyError, number="E503"):
    """A party's policy does not accept such a job or such a release."""


class TrainedOn(PrivacyError, number="E504"):
    """Exact scores of people a model was trained on would show more of them than their scores."""


class NotApproved(PrivacyError, number="E505"):
    """A party's people declined the job or did not approve it in time, or too few submitted it. Peers may know that."""

    for_peers = True


class LedgerError(ColonnadeError, number="E600"):
    """A ledger cannot be reached or used."""

    exit_code = 6
    family = "LedgerError"


class LedgerAltered(LedgerError, number="E601"):
    """The hash chain is broken, or entries that a peer holds receipts for are gone."""

    family = "LedgerAltered"


class LedgerLocked(LedgerError, number="E602"):
    """Another process holds the ledger."""

    family = "LedgerLocked"


class LedgerMissing(LedgerError, number="E603"):
    """There is no ledger where one was named."""


class LedgerNewer(LedgerError, number="E604"):
    """A ledger was written by a newer version of Colonnade."""


class LedgerReplaced(LedgerError, number="E605"):
    """Peers hold receipts of another ledger of this party, and this one does not say that it was begun anew."""

    for_peers = True
    family = "LedgerReplaced"


class LedgerExists(LedgerError, number="E606"):
    """A ledger was to be made where a file is already."""


class ProtocolError(ColonnadeError, number="E700"):
    """Parties do not agree."""

    exit_code = 7
    for_peers = True
    family = "ProtocolError"


class LocalProtocolError(ProtocolError, number="E710"):
    """This party asked its own protocol for something it does not do."""


class RemoteProtocolError(ProtocolError, number="E720"):
    """A peer sent what it should not have, or nothing."""


class PlansDiffer(RemoteProtocolError, number="E721"):
    """The parties planned different things."""


class PeerTimeout(RemoteProtocolError, number="E722"):
    """A peer did not answer in time."""


class RowsNotProved(RemoteProtocolError, number="E723"):
    """What a peer dealt did not pass its check: it, or one of its verifiers, does not follow the protocol."""


@dataclass(frozen=True)
class Explanation:
    """What `errors.toml` says about one number; `text` is Markdown."""

    number: str
    title: str
    text: str


def explanations() -> dict[str, Explanation]:
    """What is behind each number of an error: meaning, usual causes, an example and what to do."""
    kinds = {kind.number: kind for kind in _tree(ColonnadeError)}
    texts = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    found = {}
    for number, said in texts.items():
        kind = kinds.get(number)
        name, code = (kind.__name__, kind.exit_code) if kind else (said["class"], said["exit_code"])
        parts = (
            f"**{said['title']}** Class `{name}`, exit code {code}.",
            said["meaning"],
            f"Usual causes: {said['causes']}",
            f"```text\nerror {number}: {said['example']}\n```",
            f"What to do: {said['remedy']}",
        )
        found[number] = Explanation(number, said["title"], "\n\n".join(parts))
    return found


def _tree(kind: type[ColonnadeError]) -> list[type[ColonnadeError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _tree(below))]


def path_of(given: object) -> Path:
    """What was given as a path, if it can be one."""
    if not isinstance(given, str | PathLike):
        raise InputError(f"a file is named by a path, not by {type(given).__name__}. Give its path.")
    return Path(given)
