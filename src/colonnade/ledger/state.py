"""What a ledger's entries add up to, what is left, and what a release would leave: a fold over the chain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from colonnade.errors import ColonnadeError, LedgerAltered
from colonnade.ledger.bounds import Account, Bound, Budget, bound, epsilon_of
from colonnade.ledger.entry_store import GENESIS, Entry, canonical
from colonnade.ledger.release import DIGEST, Receipt, Release, counted_part
from colonnade.markup import html_table
from colonnade.privacy.events import Event, Gaussian
from colonnade.privacy.guarantee import delta_text, epsilon_text
from colonnade.privacy.observers import observer_text, unit_text
from colonnade.privacy.renyi import gaussian_epsilon


@dataclass(frozen=True)
class Comparison:
    """The ids of a data set were compared with those of these parties, in a run that began at this time.

    `through` is the server that pseudonyms of the ids are shown to where lists differ; empty if none is. How many ids
    there were is not in it: an export of a ledger tells nobody the size of a table.
    """

    dataset: str
    partners: tuple[str, ...]
    run: str
    time: str
    through: str = ""

    def __post_init__(self) -> None:
        if not self.partners or not all(isinstance(partner, str) and partner for partner in self.partners):
            raise ValueError("ids are compared with at least one party, by its name")
        if not all(isinstance(said, str) for said in (self.dataset, self.run, self.through)):
            raise ValueError("a comparison names its data set and its run")

    def to_data(self) -> dict[str, Any]:
        through = {"through": self.through} if self.through else {}
        return {"dataset": self.dataset, "partners": list(self.partners), "run": self.run, **through}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, time: str) -> Comparison:
        return cls(data["dataset"], tuple(data["partners"]), data["run"], time, data.get("through", ""))


_SAID = ("job", "request", "what", "by", "approved", "party", "because")


@dataclass(frozen=True)
class Decision:
    """What one person decided about one job: `request` is a digest of all that the person was shown.

    `costs` are the ε of the job alone, by observer and unit, as they were shown, rounded up. `signature` says who
    vouches for it, by a scheme, a key and a value; whoever reads the entry checks it against `statement`. Where the
    scheme is "proposal" or "confirmation" an administrator submitted the job, and signed `request`.
    """

    job: str
    request: str
    what: str
    costs: tuple[tuple[str, str, float], ...]
    by: str
    approved: bool
    party: str
    because: str = ""
    signature: tuple[tuple[str, str], ...] = ()
    time: str = ""

    def __post_init__(self) -> None:
        if not self.by or not self.job or not self.party:
            raise ValueError("a decision names a party, a job and a person")
        if not DIGEST.fullmatch(self.request):
            raise ValueError("a decision names what was asked by a SHA-256 digest in 64 hexadecimal digits")
        if not isinstance(self.approved, bool):
            raise ValueError("a decision is yes or no")

    @property
    def statement(self) -> bytes:
        """What is signed: everything but the signature and the time, which is the entry's."""
        return canonical(self._said()).encode()

    def _said(self) -> dict[str, Any]:
        costs = [list(cost) for cost in self.costs]
        return {**{name: getattr(self, name) for name in _SAID}, "costs": costs}

    def to_data(self) -> dict[str, Any]:
        return {**self._said(), "signature": dict(self.signature)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, time: str = "") -> Decision:
        return cls(
            **{name: data[name] for name in _SAID},
            costs=tuple((str(who), str(unit), float(epsilon)) for who, unit, epsilon in data["costs"]),
            signature=tuple(sorted((str(key), str(value)) for key, value in data["signature"].items())),
            time=time,
        )


@dataclass(frozen=True)
class Total:
    """What one account has lost so far, at its budget's δ, and what is left of the budget.

    `reproducible` means that some of it was released with seeded noise, which protects nobody: for this
    account ε is then no guarantee. `left` is never negative, also after a budget was lowered. `because` says why ε is ∞
    where a release has no line that bounds the account. Where releases were about parts of the people, ε is that of the
    `part` that lost most; `otherwise` is how many of them cut the data set otherwise than the first, and so count in
    every part.
    """

    dataset: str
    unit: str
    observer: str
    epsilon: float
    delta: float
    budget_epsilon: float
    left: float
    entries: int
    reproducible: bool
    because: str = ""
    part: str = ""
    otherwise: int = 0


@dataclass
class Spent:
    """What releases add up to: how often each event, over how many releases, how many of them seeded.

    `events` count for everybody, and those of `parts` for the people of one part, who are in no other.
    `because` is why the first release that no line bounds is unbounded; then ε is ∞.
    """

    events: Counter[Event] = field(default_factory=Counter)
    parts: dict[str, Counter[Event]] = field(default_factory=dict)
    otherwise: int = 0
    entries: int = 0
    seeded: int = 0
    because: str = ""

    def take(self, release: Release, shown: Bound, part: str = "") -> None:
        """Count one more release, which is this to the account, in a part or in all; nothing if it adds nothing."""
        if shown.unbounded and not self.because:
            self.because = f"{release.what} ({release.id}): {shown.reason}"
        if shown.unbounded or shown.events:
            counted = self.parts.setdefault(part, Counter()) if part else self.events
            counted.update(shown.events)
            self.entries += 1
            self.seeded += release.reproducible

    def epsilon(self, delta: float, *extra: Event, part: str = "") -> float:
        """ε at δ of all events together with `extra`, which is about one part or about all: the largest of any part."""
        if self.because:
            return math.inf
        return max(self._of(name, delta, extra, part) for name in {"": None, **self.parts, part: None})

    def _of(self, name: str, delta: float, extra: tuple[Event, ...], part: str) -> float:
        own = self.parts.get(name, Counter())
        added = [(event, 1) for event in extra if part in ("", name)]
        return epsilon_of((*self.events.items(), *own.items(), *added), delta)

    def worst_part(self, delta: float) -> str:
        """The part that lost most; empty where nothing was about one part alone."""
        if self.because or not self.parts:
            return ""
        return max(self.parts, key=lambda name: self._of(name, delta, (), ""))


@dataclass
class LedgerState:
    """The state of the ledger at `where` after entry `seq`, whose hash is `head`."""

    where: str
    seq: int = 0
    head: str = GENESIS
    origin: str = ""
    party: str = ""
    format: int = 0
    # Why it was begun anew although there was a ledger before; empty for a first one.
    reason: str = ""
    budgets: dict[Account, Budget] = field(default_factory=dict)
    # Accounts that a release charged by name.
    named: set[Account] = field(default_factory=set)
    # By data set, every release, in order.
    released: dict[str, list[Release]] = field(default_factory=dict)
    # By account and δ, how many of those are counted, and what they add up to. `lost` goes on from there.
    _lost: dict[tuple[Account, float], tuple[int, Spent]] = field(
        default_factory=dict, compare=False, repr=False
    )
    # By data set and receiver, of how many people something left exactly, release by release.
    exact: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Release id → what was charged under it, as canonical text, and the receipt.
    charged: dict[str, tuple[str, Receipt]] = field(default_factory=dict)
    # Peers' receipts, in the order they came.
    receipts: dict[Receipt, None] = field(default_factory=dict)
    # When and with whom ids were compared, in order.
    comparisons: list[Comparison] = field(default_factory=list)
    # What people decided about jobs before they began, in order.
    decisions: list[Decision] = field(default_factory=list)

    def read(self, entry: Entry) -> None:
        """Take in the entry after the last one; the caller has checked the chain."""
        if (entry.kind == "opened") != (self.seq == 0):
            raise LedgerAltered(
                f"{self.where}: entry {entry.seq} is {entry.kind!r}; a ledger opens at entry 1, once."
            )
        try:
            self._take(entry)
        except (KeyError, TypeError, ValueError, ColonnadeError) as error:
            raise LedgerAltered(
                f"{self.where}: entry {entry.seq} is not one that Colonnade writes ({error})."
            ) from error
        self.seq, self.head = entry.seq, entry.hash
        self.origin = self.origin or entry.hash

    def _take(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "opened":
                self.party, self.format = body["party"], body["format"]
                self.reason = str(body.get("reason", ""))
            case "budget":
                account = Account(body["dataset"], body["unit"], body["observer"])
                epsilon = math.inf if body["epsilon"] == "inf" else body["epsilon"]
                self.budgets[account] = Budget(account, epsilon=epsilon, delta=body["delta"])
            case "charge":
                release = Release.from_data(body["release"])
                if release.id in self.charged:
                    raise ValueError(f"release {release.id!r} is charged twice")
                self.named.update(accounts(release, body["dataset"]))
                self.released.setdefault(body["dataset"], []).append(release)
                if release.exact:
                    self.exact[body["dataset"], release.receiver] += release.exact
                receipt = Receipt(self.party, entry.seq, entry.hash, self.origin)
                self.charged[release.id] = (canonical(body), receipt)
            case "receipt":
                self.receipts[Receipt.from_data(body)] = None
            case "compared":
                self.comparisons.append(Comparison.from_data(body, time=entry.time))
            case "decision":
                self.decisions.append(Decision.from_data(body, time=entry.time))
            case _:
                raise ValueError(f"of unknown kind {entry.kind!r}")

    def governing(self, account: Account) -> tuple[Budget, ...]:
        """The budgets that an account must keep: the closest matches, all of them.

        Two can be equally close, (unit, "*") and ("*", observer). Neither is an exception to the other, so both hold.
        """
        matching = [budget for budget in self.budgets.values() if budget.matches(account)]
        closest = max((budget.closeness for budget in matching), default=0)
        return tuple(budget for budget in matching if budget.closeness == closest)

    def lost(self, account: Account, delta: float) -> Spent:
        """All that the account's observer has learned, release by release: what bounds it there, in sum.

        Where several lines bound it the one that is smallest at δ counts, so that totals at two δ may count two lines.
        """
        releases = self.released.get(account.dataset, [])
        counted, spent = self._lost.setdefault((account, delta), (0, Spent()))
        split = self.split_of(account.dataset)
        for release in releases[counted:]:
            part = counted_part(release.part, split, account.unit)
            spent.otherwise += release.part is not None and release.part.cut != split
            spent.take(release, bound(release, account, delta), part)
        self._lost[account, delta] = (len(releases), spent)
        return spent

    def split_of(self, dataset: str) -> str:
        """The cut whose parts are counted apart: that of the first release about a part. Empty before it."""
        parts = (release.part for release in self.released.get(dataset, []))
        return next((part.cut for part in parts if part is not None), "")

    def added_part(self, release: Release, account: Account) -> str:
        """In which part a release would count for an account; empty where it would in every part."""
        first = release.part.cut if release.part is not None else ""
        return counted_part(release.part, self.split_of(account.dataset) or first, account.unit)

    def known(self) -> tuple[Account, ...]:
        """Every account that was charged by name, or that a budget names in full, in order of name."""
        named = {account for account, budget in self.budgets.items() if budget.closeness == 2}
        return tuple(sorted(named | self.named))

    def total(self, account: Account) -> Total | None:
        """The account against the budget that leaves it least; None without a budget."""
        totals = [self._total(account, budget) for budget in self.governing(account)]
        return min(totals, key=lambda total: total.left, default=None)

    def _total(self, account: Account, budget: Budget) -> Total:
        spent = self.lost(account, budget.delta)
        epsilon = spent.epsilon(budget.delta)
        return Total(
            **asdict(account),
            epsilon=epsilon,
            delta=budget.delta,
            budget_epsilon=budget.epsilon,
            left=left(budget.epsilon, epsilon),
            entries=spent.entries,
            reproducible=spent.seeded > 0,
            because=spent.because,
            part=spent.worst_part(budget.delta),
            otherwise=spent.otherwise,
        )

    def totals(self) -> tuple[Total, ...]:
        totals = (self.total(account) for account in self.known())
        return tuple(total for total in totals if total is not None)


def accounts(release: Release, dataset: str) -> tuple[Account, ...]:
    return tuple(dict.fromkeys(Account(dataset, line.unit, line.observer) for line in release.lines))


def budget_to_data(budget: Budget) -> dict[str, Any]:
    # JSON has no infinities.
    epsilon = "inf" if math.isinf(budget.epsilon) else budget.epsilon
    return {**asdict(budget.account), "epsilon": epsilon, "delta": budget.delta}


def left(budget: float, epsilon: float) -> float:
    """What remains of a budget, rounded down, never below 0."""
    if math.isinf(budget):
        # Whoever accepted ∞ by name has as much left as before.
        return budget
    rest = budget - epsilon
    # ε = ∞ is a lawful cost (a release without noise); Fraction has no infinities.
    if math.isfinite(rest) and Fraction(rest) > Fraction(budget) - Fraction(epsilon):
        rest = math.nextafter(rest, -math.inf)
    return max(0.0, rest)


# ε is found to this many halvings of the budget.
_HALVINGS = 10


def remaining_epsilon(state: LedgerState, account: Account) -> float:
    """The largest ε, rounded down, of one further release of normal noise that this account's budgets admit.

    A release with other noise composes a little differently; `charge` decides. 0 without a budget.
    """
    budgets = state.governing(account)
    if not budgets:
        return 0.0
    if all(math.isinf(budget.epsilon) for budget in budgets):
        return math.inf

    def admitted(mu: float) -> bool:
        event = Gaussian(sensitivity=1.0, sigma=1.0 / mu)
        return all(
            state.lost(account, budget.delta).epsilon(budget.delta, event) <= budget.epsilon
            for budget in budgets
        )

    def cost(mu: float) -> float:
        return max(gaussian_epsilon(mu, budget.delta) for budget in budgets)

    low, high = 0.0, 1.0
    while cost(high) < min(budget.epsilon for budget in budgets) and high < 1e3:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if admitted(middle) else (low, middle)
    return math.floor(100.0 * cost(low)) / 100.0 if low else 0.0


_DIGITS = 3


@dataclass(frozen=True)
class Prospect:
    """One account before a release: `epsilon` is the release alone, rounded up; `left` is after it, rounded down.

    `before` is what is left without the release. Costs do not simply add, so they differ by no more than `epsilon`.
    """

    dataset: str
    unit: str
    observer: str
    delta: float
    epsilon: float
    budget: float
    before: float
    left: float


def prospects(state: LedgerState, release: Release, dataset: str) -> tuple[Prospect, ...]:
    """Every account that the release names, against the budget that would leave it least, in the order of its lines.

    An account without a budget has none to leave: `admit` refuses it, and it is not in the answer.
    """
    prospects = []
    for account in accounts(release, dataset):
        seen = []
        for budget in state.governing(account):
            added = bound(release, account, budget.delta)
            alone = math.inf if added.unbounded else epsilon_of(added.events, budget.delta)
            spent, part = state.lost(account, budget.delta), state.added_part(release, account)
            after = math.inf if added.unbounded else spent.epsilon(budget.delta, *added.events, part=part)
            seen.append(
                Prospect(
                    **asdict(account),
                    delta=budget.delta,
                    epsilon=rounded_up(alone),
                    budget=budget.epsilon,
                    before=left(budget.epsilon, spent.epsilon(budget.delta)),
                    left=left(budget.epsilon, after),
                )
            )
        if seen:
            prospects.append(min(seen, key=lambda prospect: prospect.left))
    return tuple(prospects)


def rounded_up(epsilon: float) -> float:
    """ε in three digits, never less than it is."""
    if not math.isfinite(epsilon):
        return math.inf
    # The double that is nearest to a decimal no less than another double is no less than that either.
    return float(Context(prec=_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon)))


def totals_table(party: str, totals: Iterable[Total]) -> str:
    """Where every account stands: ε spent rounded up, ε left rounded down."""
    rows = [
        (
            observer_text(total.observer),
            f"{unit_text(total.unit, owner=party)} ({total.unit})",
            total.dataset,
            f"{epsilon_text(total.epsilon)} of {epsilon_text(total.budget_epsilon)}",
            "∞" if math.isinf(total.left) else f"{math.floor(total.left * 100) / 100:.2f}",
            delta_text(total.delta),
        )
        for total in totals
    ]
    heads = ("who could learn", "about what", "data set", "ε spent", "ε left", "at δ")
    return html_table(f"Ledger of {party}", heads, rows)
