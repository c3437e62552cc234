"""What a ledger refuses, how it rounds and what it chooses: each refusal with a case, each choice both ways."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ledger_samples import DECISION, DELTA, book, release
from typed import untyped

from colonnade.errors import BudgetExceeded, InputError, LedgerAltered
from colonnade.ledger import (
    CoalitionBound,
    Decision,
    HoldoutSplit,
    Ledger,
    LedgerLine,
    Part,
    Receipt,
    Release,
)
from colonnade.ledger import bounds as lattice
from colonnade.ledger.admission import Opening, check_announced
from colonnade.ledger.bounds import MOST_EPSILON, Account, Bound, Budget, bound
from colonnade.ledger.state import Comparison, LedgerState, Spent, left, remaining_epsilon
from colonnade.privacy.events import Gaussian, Laplace
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.observers import parse_observer, parse_unit
from colonnade.privacy.renyi import gaussian_mu

NOISE = Gaussian(sensitivity=1.0, sigma=8.0)
LINE = LedgerLine("server", "record", NOISE)
NAMED = {"id": "r", "run": "run", "plan": "5f0c", "what": "a count", "receiver": "server"}
RELEASE = Release(**untyped(NAMED), lines=(LINE,), reproducible=False)
RECEIPT = Receipt("bank", entry=3, head="0" * 64, origin="a" * 64)
OWNED = {"owners": ("bank", "shop")}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in NAMED for value in ("", 7, None)),
        *(("lines", value) for value in ([LINE], (LINE, "a line"), None)),
        *(("reproducible", value) for value in (1, None)),
        *(("exact", value) for value in (-1, 1.0, True)),
        ("shown_to", ("bank",)),
        ("share_holders", ("bank",)),
        ("threshold", 1),
        ("coalitions", (CoalitionBound(2, NOISE),)),
        ("noise_from", ("server",)),
        ("published", 1),
        ("part", "training"),
    ],
)
def test_a_release_that_does_not_say_what_it_is_cannot_be_made(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field if field in NAMED else "release"):
        replace(RELEASE, **untyped({field: value}))


def test_a_release_with_owners_may_name_whoever_else_takes_part_and_a_number_of_shares() -> None:
    for threshold in (-1, 1.0, True, "1"):
        with pytest.raises(ValueError, match="threshold"):
            replace(RELEASE, **untyped({**OWNED, "threshold": threshold}))
    roles = {
        "shown_to": ("bank",),
        "share_holders": ("bank", "shop", "server"),
        "threshold": 1,
        "coalitions": (CoalitionBound(2, NOISE),),
        "noise_from": ("server",),
        "published": False,
        "exact": 3,
        "part": Part("0" * 64, "training"),
    }
    whole = replace(RELEASE, **untyped({**OWNED, **roles}))
    assert Release.from_data(whole.to_data()) == whole
    # Each of them is written, so that no two releases are one text.
    for name in roles:
        assert replace(whole, **untyped({name: getattr(RELEASE, name)})).to_data() != whole.to_data()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        *(
            (lambda owners=owners: CoalitionBound(untyped(owners), NOISE), ValueError, "coalition|bound")
            for owners in (1, 0, -2, 2.0, True)
        ),
        (lambda: CoalitionBound(2, untyped("noise")), TypeError, "coalition|bound"),
        (lambda: CoalitionBound(3, untyped(None)), TypeError, "coalition|bound"),
        (lambda: LedgerLine("coalition:shop+bank", "record", NOISE), ValueError, "is written"),
        (lambda: LedgerLine("nobody", "record", NOISE), ValueError, "no observer is called"),
        (lambda: LedgerLine("server", "person", NOISE), ValueError, "no unit is called"),
        (lambda: LedgerLine("server", "record", untyped("noise")), TypeError, "event"),
        (lambda: HoldoutSplit(b"short", 0.5, "n"), ValueError, "the key of a cut"),
        (lambda: HoldoutSplit(untyped("0" * 32), 0.5, "n"), ValueError, "the key of a cut"),
        (lambda: HoldoutSplit(bytes(32), 0.0, "n"), ValueError, "the share held out"),
        (lambda: HoldoutSplit(bytes(32), 1.0, "n"), ValueError, "the share held out"),
        (lambda: Part("0" * 63, "training"), ValueError, "a cut is named"),
        (lambda: Part("0" * 64, untyped("other")), ValueError, "a part is one of"),
    ],
)
def test_a_bound_a_line_a_cut_and_a_part_have_what_they_need(
    make: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make()
    assert CoalitionBound(2, NOISE).owners == 2 and CoalitionBound(3, NOISE).owners == 3


def test_a_receipt_comes_from_a_peers_bytes_and_is_checked() -> None:
    digests = ("0" * 63, "0" * 65, "G" * 64, "A" * 64, 0)
    wrong = {"party": ("", 3), "entry": (0, 1.0, True, "1"), "head": (*digests, "", None), "origin": digests}
    for field, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="receipt"):
                replace(RECEIPT, **untyped({field: value}))
    assert replace(RECEIPT, entry=1, origin="").entry == 1


def test_what_would_not_be_read_as_it_was_written_is_not_written() -> None:
    ledger = book()
    # A server whose name is a number is read as text.
    altered = replace(RELEASE, **untyped({**OWNED, "server": 5}))
    before = ledger.entries()
    with pytest.raises(ValueError, match="does not survive being written and read"):
        ledger.charge(altered, "adult")
    assert ledger.entries() == before
    ledger.charge(replace(RELEASE, **untyped(OWNED)), "adult")
    assert len(ledger.entries()) == len(before) + 1


def test_a_history_that_differs_from_what_is_known_is_noticed(tmp_path: Path) -> None:
    """The chain of the file is in order and so is its end: only what was counted in between is another."""
    path = tmp_path / "bank.ledger"
    changes: dict[str, Callable[[LedgerState], object]] = {
        "a budget": lambda state: state.budgets.clear(),
        "a charge": lambda state: state.charged.clear(),
        "what was released": lambda state: state.released.clear(),
        "an account": lambda state: state.named.clear(),
        "who was shown exactly": lambda state: state.exact.update({("adult", "server"): 1}),
        "a receipt": lambda state: state.receipts.clear(),
        "a comparison": lambda state: state.comparisons.clear(),
        "a decision": lambda state: state.decisions.clear(),
        "whose it is": lambda state: setattr(state, "party", "shop"),
        "why it was begun": lambda state: setattr(state, "reason", "none"),
        "where it began": lambda state: setattr(state, "origin", "b" * 64),
    }
    made = Ledger.create(path, "bank")
    made.set_budget("adult", "*", "*", epsilon=1.0, delta=DELTA)
    made.charge(RELEASE, "adult")
    made.keep_receipt(replace(RECEIPT, party="shop"))
    made.note_comparison("adult", ["shop"], run="5f0c")
    made.note_decision(Decision("j1", "0" * 64, "a count", (), by="Ada", approved=True, party="bank"))
    for what, change in changes.items():
        ledger = Ledger.open(path)
        assert ledger.verify().entries == 6
        change(untyped(ledger)._state)
        with pytest.raises(LedgerAltered, match="exchanged while this process held it"):
            ledger.verify()
        assert Ledger.open(path).verify().entries == 6, what


@pytest.mark.parametrize(
    ("entry", "origin", "after", "refused"),
    [
        (9, "a", None, True),
        (11, "a", None, True),
        (13, "a", None, False),
        (9, "b", None, False),
        (9, "", None, False),
        (9, "a", 8, False),
        (9, "a", 9, True),
        (9, "a", 10, True),
        (9, "a", 0, False),
    ],
)
def test_a_receipt_whose_number_goes_back_is_refused(
    entry: int, origin: str, after: int | None, refused: bool
) -> None:
    ledger = Ledger.in_memory("shop")
    ledger.keep_receipt(Receipt("bank", 4, "3" * 64, "a" * 64))
    ledger.keep_receipt(Receipt("bank", 12, "1" * 64, "a" * 64))
    ledger.keep_receipt(Receipt("clinic", 40, "1" * 64, "a" * 64))
    announced = Receipt("bank", entry, "2" * 64, origin * 64)
    if refused:
        highest = 12 if after is None else after
        with pytest.raises(
            LedgerAltered, match=f"for entry {entry} of its ledger after one for entry {highest}"
        ):
            ledger.keep_receipt(announced, after=after)
    else:
        ledger.keep_receipt(announced, after=after)
    assert announced in ledger.receipts("bank"), "it is kept, as evidence or as a witness"
    # What is kept already is no news.
    ledger.keep_receipt(announced, after=after)
    ledger.keep_receipt(Receipt("bank", 4, "3" * 64, "a" * 64))


def test_the_highest_receipt_is_of_this_very_ledger_and_the_first_of_two() -> None:
    kept = [
        Receipt("bank", 7, "1" * 64, "a" * 64),
        Receipt("bank", 9, "2" * 64, "a" * 64),
        Receipt("bank", 9, "3" * 64, "a" * 64),
        Receipt("bank", 8, "4" * 64, "a" * 64),
        Receipt("bank", 20, "5" * 64, "b" * 64),
        Receipt("shop", 30, "6" * 64, "a" * 64),
        Receipt("bank", 40, "7" * 64),
    ]
    assert Opening("bank", "a" * 64, anew=False).highest(kept) == kept[1]
    assert Opening("bank", "b" * 64, anew=False).highest(kept) == kept[4]
    assert Opening("bank", "c" * 64, anew=True).highest(kept) is None
    check_announced(kept[1], kept[:1], after=None, where="here")


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6))
@example(1.0, 1e-17)
@example(1.0, 1.0)
@example(0.3, 0.1)
def test_what_is_left_is_rounded_down_and_no_further(budget: float, epsilon: float) -> None:
    exact = Fraction(budget) - Fraction(epsilon)
    rest = left(budget, epsilon)
    if exact <= 0:
        assert rest == 0.0
    else:
        assert 0 <= Fraction(rest) <= exact
        assert Fraction(math.nextafter(rest, math.inf)) > exact


def test_nothing_is_left_of_a_finite_budget_after_a_cost_without_bound() -> None:
    assert left(1.0, math.inf) == 0.0 and left(math.inf, math.inf) == left(math.inf, 3.0) == math.inf
    assert left(1.0, 1e-17) < 1.0


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_several_lines_that_bound_an_account_the_smallest_counts(order: tuple[int, ...]) -> None:
    lines = [
        LedgerLine("party:bank", "others-part", Gaussian(1.0, 4.0)),
        LedgerLine("coalition:bank+clinic", "record-replaced", Gaussian(1.0, 9.0)),
        LedgerLine("party:bank", "record-replaced", Gaussian(1.0, 6.0)),
    ]
    release = replace(RELEASE, lines=tuple(lines[place] for place in order))
    found = bound(release, Account("adult", "own-part:shop", "party:bank"), DELTA)
    assert found == Bound((Gaussian(1.0, 9.0),))


def test_of_several_lines_all_that_name_an_account_count_and_the_smallest_at_the_budgets_delta() -> None:
    normal, exponential = Gaussian(1.0, 4.0), Laplace(1.0, 1.0)
    lines = (
        LedgerLine("party:bank", "others-part", normal),
        LedgerLine("party:bank", "record-replaced", exponential),
    )
    account = Account("adult", "own-part:shop", "party:bank")
    for one in (replace(RELEASE, lines=lines), replace(RELEASE, lines=lines[::-1])):
        assert bound(one, account, 1e-2).events == (normal,)
        assert bound(one, account, 1e-30).events == (exponential,)
    others = [
        LedgerLine(who, "record", Gaussian(1.0, far)) for who, far in (("server", 2.0), ("reader", 99.0))
    ]
    found = bound(replace(RELEASE, lines=(LINE, *others)), Account("adult", "record", "server"), DELTA)
    assert found.events == (NOISE, Gaussian(1.0, 2.0))


PARTIES = ("a", "b", "c")
SETS = [frozenset(names) for size in range(4) for names in itertools.combinations(PARTIES, size)]
REPLACED = [
    *(lattice._Parts(only) for only in SETS if only),
    *(lattice._Parts(frozenset(), but) for but in SETS),
]


@pytest.mark.parametrize("said", [False, True])
def test_parts_are_within_others_where_they_are_whoever_took_part(said: bool) -> None:
    """Old releases do not say who took part: then it must hold for every group there may have been, and only then."""
    strangers = frozenset({"d"})
    groups = [group | more for group in SETS for more in (frozenset(), strangers)]

    def replaced(parts: lattice._Parts, group: frozenset[str]) -> set[str]:
        return {name for name in group if (name in parts.only if parts.only else name not in parts.but)}

    for one, other in itertools.product(REPLACED, repeat=2):
        if said:
            for group in groups:
                release = replace(RELEASE, owners=tuple(sorted(group)))
                expected = replaced(one, group) <= replaced(other, group)
                assert one.within(other, release) == expected, (one, other, group)
        else:
            expected = all(replaced(one, group) <= replaced(other, group) for group in groups)
            assert one.within(other, RELEASE) == expected, (one, other)


@pytest.mark.parametrize("laxer_first", [True, False])
@pytest.mark.parametrize("laxer", ["unit", "observer"])
def test_of_two_budgets_the_stricter_is_shown_and_holds(laxer_first: bool, laxer: str) -> None:
    patterns = {"unit": ("record", "*"), "observer": ("*", "server")}
    ledger = Ledger.in_memory("bank")
    for name, pattern in sorted(patterns.items(), key=lambda item: (item[0] == laxer) != laxer_first):
        ledger.set_budget("adult", *pattern, epsilon=9.0 if name == laxer else 1.0, delta=DELTA)
    ledger.charge(RELEASE, "adult")
    (total,) = ledger.totals()
    spent = account_for(NOISE, DELTA).epsilon
    assert (total.budget_epsilon, total.epsilon) == (1.0, spent)
    assert total.left == ledger.what_fits("adult", "record", "server") == left(1.0, spent)
    large = LedgerLine("server", "record", Gaussian(1.0, 1.0))
    with pytest.raises(BudgetExceeded, match="is left of 1 "):
        ledger.charge(replace(RELEASE, id="large", lines=(large,)), "adult")
    assert len(ledger.totals()) == 1


@pytest.mark.parametrize("closer", [0.125, 9.0])
def test_a_closer_budget_takes_the_place_of_a_wider_one_stricter_or_laxer(closer: float) -> None:
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "*", "*", epsilon=0.25, delta=DELTA)
    ledger.set_budget("adult", "record", "server", epsilon=closer, delta=DELTA)
    other = LedgerLine("reader", "record-replaced", NOISE)
    assert account_for(NOISE, DELTA).epsilon > 0.25
    if closer == 9.0:
        ledger.charge(RELEASE, "adult")
        assert ledger.what_fits("adult", "record", "server") > 8
    else:
        with pytest.raises(BudgetExceeded, match=r"is left of 0\.125 "):
            ledger.charge(RELEASE, "adult")
    with pytest.raises(BudgetExceeded, match=r"is left of 0\.250? "):
        ledger.charge(replace(RELEASE, id="other", lines=(other,)), "adult")


def test_a_budget_is_kept_to_the_last_bit_and_not_beyond() -> None:
    spent = account_for(NOISE, DELTA).epsilon
    small = LedgerLine("server", "record", Gaussian(1.0, 10_000.0))
    for budget in (spent, math.nextafter(spent, 9.0)):
        ledger = book(epsilon=budget)
        ledger.charge(RELEASE, "adult")
        (total,) = ledger.totals()
        assert (total.epsilon, total.left) == (spent, left(budget, spent))
        with pytest.raises(BudgetExceeded):
            ledger.charge(replace(RELEASE, id="small", lines=(small,)), "adult")
    with pytest.raises(BudgetExceeded):
        book(epsilon=math.nextafter(spent, 0.0)).charge(RELEASE, "adult")


def test_an_overdrawn_account_refuses_what_adds_to_it_and_nothing_else() -> None:
    ledger = book(epsilon=9.0)
    ledger.charge(RELEASE, "adult")
    ledger.set_budget("adult", "record", "server", epsilon=0.01, delta=DELTA)
    (total,) = ledger.totals()
    assert total.left == 0.0 < total.epsilon
    lines = (LedgerLine("party:shop", "others-part", NOISE),)
    hidden = replace(RELEASE, id="hidden", lines=lines, owners=("bank", "shop"), shown_to=("shop",))
    ledger.charge(replace(hidden, published=False), "adult")
    with pytest.raises(BudgetExceeded):
        ledger.charge(replace(RELEASE, id="more"), "adult")


def test_a_total_says_how_many_releases_are_in_it_and_whether_any_had_a_seed() -> None:
    spent = Spent()
    spent.take(RELEASE, Bound(()))
    assert (spent.entries, spent.seeded) == (0, 0)
    spent.take(RELEASE, Bound((NOISE,)))
    spent.take(replace(RELEASE, reproducible=True), Bound((NOISE,)))
    assert (spent.entries, spent.seeded, spent.because) == (2, 1, "")
    spent.take(RELEASE, Bound((), "nobody knows"))
    spent.take(replace(RELEASE, id="later"), Bound((), "nobody knows either"))
    assert spent.entries == 4 and spent.because == "a count (r): nobody knows"
    assert spent.epsilon(DELTA) == math.inf and spent.worst_part(DELTA) == ""


def test_the_part_that_lost_most_is_the_total_and_what_counts_for_all_counts_in_each() -> None:
    spent = Spent()
    small, large = Gaussian(1.0, 9.0), Gaussian(1.0, 3.0)
    spent.take(RELEASE, Bound((small,)), "held-out")
    spent.take(RELEASE, Bound((large,)), "training")
    assert spent.worst_part(DELTA) == "training"
    assert spent.epsilon(DELTA) == account_for(large, DELTA).epsilon
    alone = spent.epsilon(DELTA, large, part="held-out")
    assert spent.epsilon(DELTA) < alone < spent.epsilon(DELTA, large, part="training")
    assert spent.epsilon(DELTA, large) == spent.epsilon(DELTA, large, part="training")
    spent.take(RELEASE, Bound((large,)))
    assert spent.epsilon(DELTA) == Spent(events=untyped({large: 2})).epsilon(DELTA)


@dataclass(frozen=True)
class Household:
    """A unit that nobody has placed in the lattice."""

    name: str = "household"
    sentence: str = "any one household"


def test_every_unit_has_a_rule_and_one_without_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lattice, "parse_unit", lambda name: Household() if name == "household" else parse_unit(name)
    )
    release = replace(RELEASE, lines=(LedgerLine("server", "record-replaced", NOISE),))
    with pytest.raises(ValueError, match="no rule says which lines bound the unit 'household'"):
        bound(release, Account("adult", "household", "server"), DELTA)
    rules = {
        "record": None,
        "record-replaced": lattice._Parts(frozenset()),
        "others-part": lattice._Parts(frozenset(), frozenset({"bank"})),
        "own-part:shop": lattice._Parts(frozenset({"shop"})),
        "columns:shop": None,
    }
    observer = parse_observer("coalition:bank+server")
    for name, rule in rules.items():
        assert lattice._Parts.of(parse_unit(name), observer) == rule


def test_patterns_and_names_of_accounts_are_refused_where_they_name_nothing() -> None:
    ledger = Ledger.in_memory("bank")
    for dataset in ("", "*", None):
        with pytest.raises(InputError, match="one data set"):
            ledger.what_fits(untyped(dataset), "record", "server")
    for unit, observer, words in (("record", "sever", "sever"), ("row", "server", "row")):
        with pytest.raises(InputError, match=words):
            ledger.set_budget("adult", unit, observer, 1.0, DELTA)
    with pytest.raises(InputError, match="data set"):
        ledger.set_budget("*", "record", "server", 1.0, DELTA)
    for party in ("", None):
        with pytest.raises(InputError, match="belongs to a party"):
            Ledger.in_memory(untyped(party))
    ledger.set_budget("adult", "*", "coalition:bank+shop", epsilon=math.inf, delta=0.1)
    ledger.set_budget("adult", "*", "server", epsilon=1e300, delta=0.1)
    assert len(ledger.entries()) == 3
    ledger.set_budget("adult", "*", "server", epsilon=1e300, delta=0.1)
    assert len(ledger.entries()) == 3, "what is in force already is not written again"


# What a ledger writes down is refused for one bad field among good ones, and kept at the last value that is right.


COMPARISON = Comparison("customers", ("insurer", "shop"), run="5f0c", time="2030-01-01T00:00:00+00:00")
RECORD = Account("adult", "record", "server")
COALITION = Account("adult", "record", "coalition:bank+insurer")


def test_a_decision_with_one_bad_field_is_none() -> None:
    wrong = {"request": ("ab" * 31, "ab" * 32 + "0", "AB" * 32, ""), "approved": (1, 0, None, "no")}
    for field, values in {**wrong, **dict.fromkeys(("by", "job", "party"), ("",))}.items():
        for value in values:
            with pytest.raises(ValueError, match="a decision"):
                replace(DECISION, **untyped({field: value}))


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_is_read_as_it_was_written_and_states_all_but_its_signature(approved: bool) -> None:
    signature = (("key", "k"), ("scheme", "s"), ("value", "v"))
    one = replace(DECISION, approved=approved, because="enough is left", signature=signature)
    again = Decision.from_data(one.to_data())
    assert again == one and again.statement == replace(one, signature=(), time="later").statement
    others: dict[str, Any] = {
        **{"by": "Bob", "job": "j2", "party": "shop", "what": "a mean", "because": "", "request": "cd" * 32},
        **{"approved": not approved, "costs": (("server", "record", 0.75),)},
    }
    for field, value in others.items():
        assert replace(one, **{field: value}).statement != one.statement, field


def test_a_comparison_with_one_bad_field_is_none() -> None:
    for partners in ((), ("insurer", ""), ("", "insurer"), ("insurer", 3), (None, "insurer")):
        with pytest.raises(ValueError, match="ids are compared"):
            replace(COMPARISON, partners=untyped(partners))
    for field, value in itertools.product(("dataset", "run", "through"), (None, 7)):
        with pytest.raises(ValueError, match="a comparison names"):
            replace(COMPARISON, **untyped({field: value}))


def test_a_budget_may_be_anything_up_to_what_bounds_something() -> None:
    for wrong in (0.0, -1.0, -math.inf, math.nan, True, "1", None):
        for where in (RECORD, COALITION):
            with pytest.raises(InputError, match="greater than 0"):
                Budget(where, epsilon=untyped(wrong), delta=DELTA)
    for wrong in (0.0, 1.0, -DELTA, 1.5, math.nan, math.inf, True, "1e-5", None):
        with pytest.raises(InputError, match="δ"):
            Budget(RECORD, epsilon=1.0, delta=untyped(wrong))
    least, most = math.nextafter(0.0, 1.0), float(MOST_EPSILON)
    for epsilon in (least, most):
        assert Budget(RECORD, epsilon=epsilon, delta=DELTA).epsilon == epsilon
    for delta in (least, math.nextafter(1.0, 0.0)):
        assert Budget(RECORD, epsilon=1.0, delta=delta).delta == delta
    for where in (RECORD, COALITION):
        with pytest.raises(InputError, match="bounds nothing"):
            Budget(where, epsilon=math.nextafter(most, math.inf), delta=DELTA)
    assert Budget(COALITION, epsilon=math.inf, delta=DELTA).epsilon == math.inf
    with pytest.raises(InputError, match="only a coalition"):
        Budget(RECORD, epsilon=math.inf, delta=DELTA)


def test_a_budget_governs_what_it_names_and_nothing_else() -> None:
    units, observers = ("record", "*", "record: row zeroed out"), ("server", "*", "party:bank")
    for unit, observer in itertools.product(units, observers):
        budget = Budget(Account("adult", unit, observer), epsilon=1.0, delta=DELTA)
        assert budget.matches(RECORD) == (unit in units[:2] and observer in observers[:2])
        assert not budget.matches(replace(RECORD, dataset="credit"))


def test_an_account_that_no_budget_governs_has_no_total() -> None:
    state = LedgerState("bank")
    state.named.add(Account("adult", "record", "server"))
    assert state.totals() == ()


def remaining(ledger: Ledger, where: Account) -> float:
    state = LedgerState("bank")
    for entry in ledger.entries():
        state.read(entry)
    return remaining_epsilon(state, where)


@pytest.mark.parametrize(
    "budgets", [((1.0, 1e-5),), ((4.0, 1e-5),), ((2.0, 1e-5), (1.0, 1e-3)), ((30.0, 1e-5),)]
)
@pytest.mark.parametrize("charges", [0, 2])
def test_what_remains_is_charged_and_two_hundredths_more_are_not(
    budgets: tuple[tuple[float, float], ...], charges: int
) -> None:
    """It is told in hundredths, rounded down, and found to a part in a thousand."""

    def book() -> Ledger:
        ledger = Ledger.in_memory("bank")
        # Two that are equally close both hold.
        for (epsilon, delta), (unit, observer) in zip(
            budgets, [("record", "*"), ("*", "server")], strict=False
        ):
            ledger.set_budget("adult", unit, observer, epsilon=epsilon, delta=delta)
        for number in range(charges):
            ledger.charge(release(f"r{number}"), "adult")
        return ledger

    fits = remaining(book(), RECORD)
    assert fits > 0 and round(100 * fits) == pytest.approx(100 * fits, abs=1e-9)
    # The largest cost of a release at any of the δ: the one at which it is told.
    least = min(delta for _, delta in budgets)

    def charged(epsilon: float) -> bool:
        event = Gaussian(sensitivity=1.0, sigma=1.0 / gaussian_mu(epsilon, least))
        try:
            book().charge(release("next", event=event), "adult")
        except BudgetExceeded:
            return False
        return True

    assert charged(fits)
    assert not charged(fits * 1.002 + 0.02)


def test_nothing_remains_without_a_budget_and_everything_of_one_without_end() -> None:
    ledger = Ledger.in_memory("bank")
    assert remaining(ledger, RECORD) == 0.0
    ledger.set_budget("adult", "record", COALITION.observer, epsilon=math.inf, delta=DELTA)
    assert remaining(ledger, COALITION) == math.inf
    ledger.set_budget("adult", "record", "server", epsilon=0.5, delta=DELTA)
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("all", event=Gaussian(sensitivity=1, sigma=1)), "adult")
    assert 0.45 < remaining(ledger, RECORD) <= 0.5


ALONE, TWO, THREE = (Gaussian(sensitivity=1, sigma=sigma) for sigma in (16, 8, 4))


@pytest.mark.parametrize(
    ("coalition", "event"),
    [
        ("a+b", TWO),
        ("a+server", TWO),  # one owner, and nobody who deals noise
        ("b+d+server", TWO),
        ("a+b+c", THREE),
        ("c+d+e", THREE),
        ("a+b+c+d", None),
        ("a+b+c+d+e", None),
    ],
)
def test_a_coalition_is_bounded_by_what_is_said_of_as_many(coalition: str, event: Gaussian | None) -> None:
    """No share is held here, so what counts is how many parts of the noise they know together."""
    owners = ("a", "b", "c", "d", "e")
    one = release(
        "r",
        LedgerLine("reader", "record-replaced", ALONE),
        owners=owners,
        coalitions=(CoalitionBound(2, TWO), CoalitionBound(3, THREE)),
        published=True,
        noise_from=owners,
    )
    found = bound(one, Account("adult", "others-part", f"coalition:{coalition}"), DELTA)
    assert found.events == (() if event is None else (event,))
    assert found.unbounded == (event is None)
