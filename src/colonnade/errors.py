"""Every error a user of Colonnade can meet, by family and by number.

::

    ColonnadeError                E100
    ├── InputError                E300  what was asked cannot be done as asked          exit code 3
    │   ├── NameTaken             E301  a file or folder of that name is there already
    │   ├── CannotWrite           E302  a file or folder cannot be written
    │   ├── NotInstalled          E303  an optional package is missing
    │   ├── DataError             E310  a table, a column, a value
    │   │   ├── DataMissing       E311  there is no such file
    │   │   ├── DataUnreadable    E312  it is there and cannot be read
    │   │   ├── ColumnMissing     E313  a declared column, or the id column, is not in it
    │   │   ├── BadIds            E314  ids are empty, repeated or of a kind that is no id
    │   │   ├── BadValues         E315  values are not as declared
    │   │   ├── PeopleDiffer      E316  the parties do not hold the same people
    │   │   └── DrownedByNoise    E317  a release is too noisy to learn from
    │   ├── ModelError            E320  a file that a run left is not what was asked for  (a DataError too)
    │   │   ├── ModelDamaged      E321  it is cut off or altered
    │   │   └── ModelNewer        E322  a newer Colonnade wrote it
    │   ├── SchemaError           E330  a declaration about columns is wrong
    │   │   ├── Misdeclared       E331  a declaration contradicts itself
    │   │   └── LeftBlank         E332  a draft was not filled in
    │   ├── JobError              E340  a job, party or policy file is wrong
    │   │   └── PartyMismatch     E341  a file is another party's, or two claim the same
    │   ├── FormError             E350  a file is not of the form that it must have   (a SchemaError and JobError too)
    │   │   ├── FileMissing       E351  there is no such file
    │   │   ├── NotTOML           E352  it is not TOML
    │   │   ├── UnknownKey        E353  a key that nothing reads
    │   │   ├── MissingKey        E354  a key that must be there
    │   │   ├── WrongType         E355  a text for a number, and the like
    │   │   ├── UnknownChoice     E356  not one of the choices
    │   │   └── OutOfRange        E357  a number that no plan could use
    │   └── KitError              E360  a kit, a certificate or an invitation
    ├── PlanError                 E400  the numbers do not fit together                 exit code 4
    │   ├── FieldTooSmall         E401  the integers could wrap around
    │   ├── DeltaTooLarge         E402  δ would allow publishing a person
    │   ├── OnlyForPublicData     E403  this protects nobody, and the data is private
    │   ├── LabelMismatch         E404  the label and the task do not fit
    │   ├── GroupMismatch         E405  who takes part, keeps shares or may collude
    │   ├── NoNoiseFits           E406  no noise keeps to this ε
    │   └── TooMuchMemory         E407  the plan is larger than this machine
    ├── PrivacyError              E500  the release is refused                          exit code 5
    │   ├── BudgetExceeded        E501  a ledger says no
    │   ├── NotMasked             E502  an opening would show more than the sum
    │   ├── PolicyRefused         E503  a party's policy says no
    │   └── TrainedOn             E504  exact scores of people a model was trained on
    ├── LedgerError               E600  a ledger cannot be reached or used              exit code 6
    │   ├── LedgerAltered         E601  its hash chain is broken, or its end was cut off
    │   ├── LedgerLocked          E602  another process holds it
    │   ├── LedgerMissing         E603  there is none
    │   └── LedgerNewer           E604  a newer Colonnade wrote it
    └── ProtocolError             E700  parties do not agree                            exit code 7
        ├── LocalProtocolError    E710  this party erred
        └── RemoteProtocolError   E720  a peer erred, or is not who or where it should be
            ├── PlansDiffer       E721  the parties planned different things
            └── PeerTimeout       E722  a peer did not answer in time

A message says what was asked, what was found and what to do; it names the file, column, party and
step, and never shows a secret, a share or a row. `colonnade explain E311` says more about a number; numbers are
never given to another mistake.
"""

from __future__ import annotations

from typing import ClassVar


class ColonnadeError(Exception):
    """The root of the tree; `exit_code` is what the command line returns, `number` what `colonnade explain` takes.

    `for_peers` says whether the message may be told to other parties. What a party's data, files, budget or ledger
    are like is its own business: of such errors peers learn only that it stopped, and `family`, the kind of mistake
    in the coarsest words.

    >>> ColumnMissing("column 'age' is declared but not in the file.").number, ColumnMissing.family
    ('E313', 'DataError')
    """

    exit_code: ClassVar[int] = 1
    for_peers: ClassVar[bool] = False
    number: ClassVar[str] = "E100"
    family: ClassVar[str] = "ColonnadeError"


class InputError(ColonnadeError):
    """What was asked cannot be done as asked."""

    exit_code = 3
    number = "E300"
    family = "InputError"


class NameTaken(InputError):
    """A file or folder of that name is there already, and is left as it is."""

    number = "E301"


class CannotWrite(InputError):
    """A file or folder cannot be written."""

    number = "E302"


class NotInstalled(InputError):
    """An optional package that this needs is not installed."""

    number = "E303"


class DataError(InputError):
    """A table, a column or a value is not as declared."""

    number = "E310"
    family = "DataError"


class DataMissing(DataError):
    """There is no such file."""

    number = "E311"


class DataUnreadable(DataError):
    """A file or a query is there and cannot be read, or holds no rows."""

    number = "E312"


class ColumnMissing(DataError):
    """A declared column, or the id column, is not in the data."""

    number = "E313"


class BadIds(DataError):
    """Ids are empty, repeated, or of a kind that is no id."""

    number = "E314"


class BadValues(DataError):
    """Values of a column are not as its schema declares them."""

    number = "E315"


class PeopleDiffer(DataError):
    """The parties do not hold the same people, or not in the same order."""

    number = "E316"


class DrownedByNoise(DataError):
    """A release is so noisy that nothing can be learnt from it."""

    number = "E317"


class ModelError(DataError):
    """A model, a release or a record that a run left is not what was asked for."""

    number = "E320"


class ModelDamaged(ModelError):
    """Such a file is cut off, or was altered after it was saved."""

    number = "E321"


class ModelNewer(ModelError):
    """Such a file was written by a newer version of Colonnade."""

    number = "E322"


class SchemaError(InputError):
    """A declaration about columns is missing or wrong."""

    number = "E330"
    family = "SchemaError"


class Misdeclared(SchemaError):
    """A declaration that contradicts itself; `where` is the path of its key in a schema file.

    >>> Misdeclared(("columns", "age", "low"), "low = 90 is not below high = 17.").where
    ('columns', 'age', 'low')
    """

    number = "E331"

    def __init__(self, where: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.where = where


class LeftBlank(SchemaError):
    """A draft has blanks that only a person can fill in."""

    number = "E332"


class JobError(InputError):
    """A job, party or policy file is missing or wrong."""

    number = "E340"
    family = "JobError"


class PartyMismatch(JobError):
    """A file belongs to another party, or two files or parties claim the same thing."""

    number = "E341"


class FormError(SchemaError, JobError):
    """A file is not of the form it must have; the mistakes are the same in jobs, schemas, party files and policies."""

    number = "E350"


class FileMissing(FormError):
    """There is no such file, or it cannot be opened."""

    number = "E351"


class NotTOML(FormError):
    """The file is not TOML."""

    number = "E352"


class UnknownKey(FormError):
    """A key that nothing reads."""

    number = "E353"


class MissingKey(FormError):
    """A key that must be there is not."""

    number = "E354"


class WrongType(FormError):
    """A value is not of the type that its key takes."""

    number = "E355"


class UnknownChoice(FormError):
    """A value is not one of the choices of its key."""

    number = "E356"


class OutOfRange(FormError):
    """A number that no plan could use."""

    number = "E357"


class KitError(InputError):
    """A kit, a certificate or an invitation to a federation is missing or wrong."""

    number = "E360"


class PlanError(ColonnadeError):
    """The numbers of a plan do not fit together."""

    exit_code = 4
    for_peers = True
    number = "E400"
    family = "PlanError"


class FieldTooSmall(PlanError):
    """The integers of this plan could wrap around in its field."""

    number = "E401"


class DeltaTooLarge(PlanError):
    """δ is not below one over the number of people."""

    number = "E402"


class OnlyForPublicData(PlanError):
    """What was asked protects nobody, and not every party declared its data public."""

    number = "E403"


class LabelMismatch(PlanError):
    """The label does not fit the task or the method, or nobody or somebody else declares it."""

    number = "E404"


class GroupMismatch(PlanError):
    """Who takes part, who keeps shares and how many may collude do not fit together."""

    number = "E405"


class NoNoiseFits(PlanError):
    """No noise that can be drawn keeps to this ε."""

    number = "E406"


class TooMuchMemory(PlanError):
    """A plan needs more memory than this machine has."""

    number = "E407"


class PrivacyError(ColonnadeError):
    """A release is refused."""

    exit_code = 5
    number = "E500"
    family = "PrivacyError"


class BudgetExceeded(PrivacyError):
    """A ledger has less left than the release costs."""

    number = "E501"
    family = "BudgetExceeded"


class NotMasked(PrivacyError):
    """Opening this value would show more than its secret."""

    number = "E502"
    family = "NotMasked"


class PolicyRefused(PrivacyError):
    """A party's policy does not accept such a job or such a release."""

    number = "E503"


class TrainedOn(PrivacyError):
    """Exact scores of people a model was trained on would show more of them than their scores."""

    number = "E504"


class LedgerError(ColonnadeError):
    """A ledger cannot be reached or used."""

    exit_code = 6
    number = "E600"
    family = "LedgerError"


class LedgerAltered(LedgerError):
    """The hash chain is broken, or entries that a peer holds receipts for are gone."""

    number = "E601"
    family = "LedgerAltered"


class LedgerLocked(LedgerError):
    """Another process holds the ledger."""

    number = "E602"
    family = "LedgerLocked"


class LedgerMissing(LedgerError):
    """There is no ledger where one was named."""

    number = "E603"


class LedgerNewer(LedgerError):
    """A ledger was written by a newer version of Colonnade."""

    number = "E604"


class ProtocolError(ColonnadeError):
    """Parties do not agree."""

    exit_code = 7
    for_peers = True
    number = "E700"
    family = "ProtocolError"


class LocalProtocolError(ProtocolError):
    """This party asked its own protocol for something it does not do."""

    number = "E710"


class RemoteProtocolError(ProtocolError):
    """A peer sent what it should not have, or nothing."""

    number = "E720"


class PlansDiffer(RemoteProtocolError):
    """The parties planned different things."""

    number = "E721"


class PeerTimeout(RemoteProtocolError):
    """A peer did not answer in time."""

    number = "E722"
