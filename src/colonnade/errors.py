"""Every error a user of Colonnade can meet, by family.

::

    ColonnadeError
    ├── InputError                what was asked cannot be done as asked          exit code 3
    │   ├── DataError             a file, a table, a column, a value
    │   ├── SchemaError           a declaration about columns is missing or wrong
    │   └── JobError              a job or party file is missing or wrong
    ├── PlanError                 the numbers do not fit together                 exit code 4
    │   └── FieldTooSmall         the integers could wrap around
    ├── PrivacyError              the release is refused                          exit code 5
    │   ├── BudgetExceeded        a ledger says no
    │   └── NotMasked             an opening would show more than the sum
    ├── LedgerError               a ledger cannot be trusted or reached           exit code 6
    │   ├── LedgerAltered         its hash chain is broken, or its end was cut off
    │   └── LedgerLocked          another process holds it
    └── ProtocolError             parties do not agree                            exit code 7
        ├── LocalProtocolError    this party erred
        └── RemoteProtocolError   a peer erred, or is not who or where it should be
            ├── PlansDiffer       the parties planned different things
            └── PeerTimeout       a peer did not answer in time

A message says what was asked, what was found and what to do; it names the file, column, party and
step, and never shows a secret, a share or a row.
"""

from __future__ import annotations


class ColonnadeError(Exception):
    """The root of the tree; `exit_code` is what the command line returns.

    `for_peers` says whether the message may be told to other parties. What a party's data, files, budget or ledger
    are like is its own business: of such errors peers learn only that it stopped.
    """

    exit_code = 1
    for_peers = False


class InputError(ColonnadeError):
    """What was asked cannot be done as asked."""

    exit_code = 3


class DataError(InputError):
    """A file, a table, a column or a value is not as declared."""


class SchemaError(InputError):
    """A declaration about columns is missing or wrong."""


class JobError(InputError):
    """A job file or a party file is missing or wrong."""


class PlanError(ColonnadeError):
    """The numbers of a plan do not fit together."""

    exit_code = 4
    for_peers = True


class FieldTooSmall(PlanError):
    """The integers of this plan could wrap around in its field."""


class PrivacyError(ColonnadeError):
    """A release is refused."""

    exit_code = 5


class BudgetExceeded(PrivacyError):
    """A ledger has less left than the release costs."""


class NotMasked(PrivacyError):
    """Opening this value would show more than its secret."""


class LedgerError(ColonnadeError):
    """A ledger cannot be trusted or reached."""

    exit_code = 6


class LedgerAltered(LedgerError):
    """The hash chain is broken, or entries that a peer holds receipts for are gone."""


class LedgerLocked(LedgerError):
    """Another process holds the ledger."""


class ProtocolError(ColonnadeError):
    """Parties do not agree."""

    exit_code = 7
    for_peers = True


class LocalProtocolError(ProtocolError):
    """This party asked its own protocol for something it does not do."""


class RemoteProtocolError(ProtocolError):
    """A peer sent what it should not have, or nothing."""


class PlansDiffer(RemoteProtocolError):
    """The parties planned different things."""


class PeerTimeout(RemoteProtocolError):
    """A peer did not answer in time."""
