"""Policies: what is not named is refused, with the key and what to write; what they accept, in words."""

import datetime
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from typed import untyped

from colonnade.cli.federation import policy_text
from colonnade.errors import FormError, PolicyRefused
from colonnade.federation.job import Job
from colonnade.ledger import CoalitionBound, Comparison, Ledger, LedgerLine, Release
from colonnade.privacy.events import Gaussian
from colonnade.sites.policy import PolicedLedger, Policy

POLICY = """methods = ["moments", "slr", "functional", "private-messages"]
parties = ["shop", "clinic", "school", "town"]
delta = 1e-5
epsilon = {"*" = 2.0}
"""


def policy(more: str = "") -> Policy:
    return Policy.parse(POLICY + more, name="bank.policy.toml")


def job(more: str = "", *, method: str = "moments", parties: str = '["bank", "shop"]') -> Job:
    return Job.parse(
        f'name = "n"\ntask = "classification"\nmethod = "{method}"\nparties = {parties}\nactive = "bank"\n'
        f"epsilon = 1.0\n{more}\n"
    )


THREE = '["bank", "shop", "clinic"]'
FIVE = '["bank", "shop", "clinic", "school", "town"]'


@pytest.mark.parametrize(
    ("requested", "found", "remedy"),
    [
        (
            job('server = "elsewhere"'),
            "server: the job's is 'elsewhere', and accepted",
            'server = "elsewhere"',
        ),
        (
            job('computing_parties = ["server", "bank", "shop"]', parties=THREE),
            "computing parties: the job gives shares to server, and accepted are bank, shop, clinic, the default",
            'computing_parties = ["server", "bank", "shop"]',
        ),
        (job("threshold = 1", parties=FIVE), "threshold: .* accepted is the default, 2", "threshold = 1"),
        (job('alignment = "server"'), "alignment: .* accepted is auto", 'alignment = ["auto", "server"]'),
        (job("delta = 1e-3"), r"delta: the job is at δ = 0.001, and the largest accepted is 1e-05", ""),
        (
            job("options = {epochs = 40}", method="slr"),
            "options.slr.epochs: the job asks for 40.0, and accepted is the default, 10.0",
            "options.slr.epochs = {most = 40}",
        ),
        (
            job('options = {calibration = "paper"}', method="slr"),
            "options.slr.calibration: the job asks for 'paper', and accepted is the default, 'sound'",
            'options.slr.calibration = ["paper"]',
        ),
        (
            job("options = {intercept = false}", method="functional"),
            "options.functional.intercept: the job asks for false, and accepted is the default, true",
            "options.functional.intercept = [false]",
        ),
        (
            job("gamma = 16384"),
            "options.moments.gamma: .* the default",
            "options.moments.gamma = {most = 16384}",
        ),
    ],
)
def test_what_a_policy_does_not_name_is_refused_and_remedied(requested: Job, found: str, remedy: str) -> None:
    with pytest.raises(PolicyRefused, match=rf"^bank\.policy\.toml, {found}") as refused:
        policy().check_job(requested, "bank")
    if remedy:
        table, dot, written = remedy.rpartition(".")
        assert f"write {written}" in str(refused.value)
        assert not dot or str(refused.value).endswith(f"under [{table}].")
        policy(remedy).check_job(requested, "bank")


@pytest.mark.parametrize("parties", ['["bank", "shop"]', THREE, FIVE])
@pytest.mark.parametrize("method", ["moments", "slr", "functional", "private-messages"])
def test_a_job_that_chooses_nothing_is_accepted_by_an_empty_policy(method: str, parties: str) -> None:
    policy().check_job(job(method=method, parties=parties), "bank")
    # To spell the defaults out is to ask for nothing more.
    group = job(method=method, parties=parties).group()
    spelt = (
        f"computing_parties = {list(group.computing_parties)}\nthreshold = {group.threshold}\nserver = "
        f"'server'\nalignment = 'auto'"
    )
    policy().check_job(job(spelt, method=method, parties=parties), "bank")


def test_keepers_that_are_named_bound_the_default_committee_too_and_a_threshold_is_the_least() -> None:
    named = policy('computing_parties = ["shop", "clinic"]')
    named.check_job(job(parties=THREE), "bank")
    with pytest.raises(PolicyRefused, match="shares to server, and accepted are shop, clinic"):
        named.check_job(job(), "bank")
    named = policy("threshold = 2")
    named.check_job(job(parties=FIVE), "bank")
    with pytest.raises(PolicyRefused, match=r"threshold: .* the least accepted is 2"):
        named.check_job(job(parties=THREE), "bank")


@pytest.mark.parametrize(
    ("rule", "used", "refused"),
    [
        ("{most = 20}", ("1", "20"), ("20.5", "40")),
        ("{least = 2, most = 20}", ("2", "20"), ("1", "21")),
        ("[3.0, 5.0]", ("3", "5"), ("4",)),
        ('"any"', ("0.5", "4000"), ()),
    ],
)
def test_an_option_takes_the_values_that_are_named_and_its_default(
    rule: str, used: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    named = policy(f"options.slr.epochs = {rule}")
    for value in ("10", *used):
        named.check_job(job(f"options = {{epochs = {value}}}", method="slr"), "bank")
    for value in refused:
        with pytest.raises(
            PolicyRefused, match=r"options\.slr\.epochs: the job asks for .* accepted is epochs: "
        ):
            named.check_job(job(f"options = {{epochs = {value}}}", method="slr"), "bank")


@pytest.mark.parametrize(
    ("lines", "plan", "found"),
    [
        ("", {"rows": 1}, ""),
        ("", {"delta": 1e-4}, r"delta: the job is at δ = 0.0001, and the largest accepted is 1e-05"),
        ("rows = 500", {"rows": 500}, ""),
        ("rows = 500", {"rows": 499}, "at most 499 people in common, and the fewest accepted are 500"),
        ('verify = "rows"', {"verify": "rows"}, ""),
        ('verify = "rows"', {"verify": "all"}, ""),
        ('verify = "rows"', {"verify": "none"}, "the least accepted is 'rows'"),
        ('verify = "rows"', {}, "the least accepted is 'rows'"),
    ],
)
def test_a_plan_below_what_a_policy_asks_is_refused(lines: str, plan: dict[str, Any], found: str) -> None:
    made = untyped(SimpleNamespace(**{"rows": 500, "delta": 1e-5, **plan}))
    with pytest.raises(PolicyRefused, match=found) if found else nullcontext():
        policy(lines).check_plan(made)
    if "fewest" in found:
        # For people to be scored it goes by δ and not by their number.
        policy(lines).check_plan(made, counts=False)


def ago(days: float, dataset: str = "customers") -> Comparison:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    return Comparison(dataset, ("shop",), run="r", time=then.isoformat(timespec="microseconds"))


def test_comparisons_are_counted_in_their_window_and_by_data_set() -> None:
    limited = policy("alignments = {most = 2, days = 30}")
    earlier = [ago(40), ago(31), ago(29), ago(2, dataset="others")]
    limited.check_comparisons(earlier, "customers")
    with pytest.raises(PolicyRefused, match="compared 2 times, and accepted is at most 2 times in 30 days"):
        limited.check_comparisons([*earlier, ago(1)], "customers")
    with pytest.raises(PolicyRefused, match=r"compared 1 time, and accepted is at most 1 time. Wait"):
        policy("alignments = {most = 1}").check_comparisons([ago(4000)], "customers")
    policy().check_comparisons([ago(1)] * 99, "customers")


def test_a_policed_ledger_takes_no_comparison_over_the_limit() -> None:
    ledger = Ledger.in_memory("bank")
    policed = PolicedLedger(ledger, policy("alignments = {most = 1, days = 1}"))
    policed.note_comparison("customers", ["shop"], run="r1")
    policed.note_comparison("customers", ["shop"], run="r1")
    with pytest.raises(PolicyRefused, match="alignments"):
        policed.note_comparison("customers", ["shop"], run="r2")
    assert [comparison.run for comparison in ledger.comparisons()] == ["r1"]


def test_what_a_policy_accepts_is_said_in_words() -> None:
    words = policy(
        "rows = 100\nalignments = {most = 3, days = 7}\noptions.slr = {epochs = {most = 20}}"
    ).words
    for part in (
        "ε at most 2 for *",
        "compared at most 3 times in 7 days",
        "100 people",
        "slr with epochs: at most 20",
    ):
        assert part in words
    assert Policy.parse("methods = []\nparties = []\ndelta = 1e-5\nepsilon = {}").words.startswith(
        "nothing is"
    )


def release(*lines: LedgerLine, **roles: Any) -> Release:
    return Release("r/x", "r", "5f0c", "a sum", "server", lines, False, owners=("bank", "shop"), **roles)


SMALL = Gaussian(sensitivity=1, sigma=32)


def test_what_everybody_hears_is_refused_where_no_limit_for_readers_could_hold() -> None:
    notify = LedgerLine("party:shop", "others-part", SMALL)
    policy().check_release(release(notify, shown_to=("shop",), published=False))
    with pytest.raises(PolicyRefused, match=r"would tell everybody something.*no ε for readers"):
        policy().check_release(release(notify, shown_to=("shop",), published=True))
    policy().check_release(release(notify, LedgerLine("reader", "record", SMALL), published=True))


def test_a_coalition_by_its_name_is_limited_also_where_nothing_bounds_it() -> None:
    lines = (LedgerLine("reader", "record", SMALL), LedgerLine("reader", "record-replaced", SMALL))
    shares = {"share_holders": ("server", "bank", "shop"), "threshold": 1}
    named = Policy.parse(POLICY.replace('"*" = 2.0', '"*" = 2.0, "coalition:server+shop" = 0.5'))
    with pytest.raises(PolicyRefused, match=r"coalition:server\+shop is bounded by nothing"):
        named.check_release(release(*lines, **shares))
    policy().check_release(release(*lines, **shares))
    large = CoalitionBound(2, Gaussian(sensitivity=1, sigma=1))
    stated = Policy.parse(POLICY.replace('"*" = 2.0', '"*" = 2.0, "coalition:*" = 0.5'))
    with pytest.raises(PolicyRefused, match="towards a coalition of 2 owners"):
        stated.check_release(release(*lines, coalitions=(large,)))


def test_a_job_turns_no_check_off_unless_the_policy_says_so() -> None:
    with pytest.raises(PolicyRefused, match=r'accepted is the default, or more.*write verify = "none"'):
        policy().check_job(job('verify = "none"'), "bank")
    for verify in ("", 'verify = "rows"', 'verify = "all"'):
        policy().check_job(job(verify), "bank")
    policy('verify = "none"\n').check_job(job('verify = "none"'), "bank")
    with pytest.raises(FormError, match="by method 'private-messages' nothing that is dealt is checked"):
        job('verify = "rows"', method="private-messages")


def test_the_old_name_of_private_messages_is_refused_with_the_new_one() -> None:
    for read in (lambda: job(method="intermediate"), lambda: policy("options.intermediate.epochs = 1\n")):
        with pytest.raises(FormError, match=r"'intermediate'.* Write 'private-messages'"):
            read()


def test_the_draft_of_a_new_kit_names_the_server_and_says_what_that_means() -> None:
    text = policy_text("bank", "one")
    draft = Policy.parse(text)
    assert draft.alignment == ("auto", "server")
    assert Policy.parse(text.replace('alignment = ["auto", "server"]', "")).alignment == ("auto",)
    said = " ".join(text.replace("#", " ").split())
    assert "the server and another party together could try any id against the list here" in said
