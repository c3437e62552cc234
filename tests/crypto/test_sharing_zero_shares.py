"""Zero shares open to zero, differ by run and step, and hide everything but the secret."""

import numpy as np
import pytest
from scipy import stats
from zero_shares import ZeroShares

from colonnade.crypto.sharing import Shamir
from colonnade.numbers.field import FIELD61, FIELD63, Field, FieldArray
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9


def keepers_of(scheme: Shamir, run: str) -> list[ZeroShares]:
    source = SeededRandomness("keys")
    keys = {frozenset((i, j)): source.bytes(32) for j in range(scheme.computing_parties) for i in range(j)}
    return [
        ZeroShares(
            scheme,
            me,
            keys={j: keys[frozenset((me, j))] for j in range(scheme.computing_parties) if j != me},
            run=run,
        )
        for me in range(scheme.computing_parties)
    ]


def zero_shares(scheme: Shamir, run: str, step: str, shape: tuple[int, ...]) -> list[FieldArray]:
    return [computing_party.share(step, shape) for computing_party in keepers_of(scheme, run)]


@pytest.mark.parametrize("computing_parties", [3, 5, 7])
@pytest.mark.parametrize("field", [FIELD63, FIELD61])
def test_zero_shares_open_to_zero_and_no_share_is_zero(computing_parties: int, field: Field) -> None:
    scheme = Shamir(computing_parties, field)
    shares = zero_shares(scheme, "run", "moments", (3, 2))
    assert scheme.reconstruct(shares, 2 * scheme.threshold).equals(field.zeros((3, 2)))
    assert not any(share.equals(field.zeros((3, 2))) for share in shares)


def test_zero_shares_differ_by_run_and_by_step() -> None:
    scheme = Shamir(3, FIELD63)
    # Names that would collide if they were only put one after the other.
    names = [
        ("run", "moments"),
        ("run", "noise"),
        ("run2", "moments"),
        ("runm", "oments"),
        ("r", "unmoments"),
    ]
    first = [zero_shares(scheme, run, step, (4,))[0].to_bytes() for run, step in names]
    assert len(set(first)) == len(names)


def test_a_step_is_served_once() -> None:
    computing_party = keepers_of(Shamir(3, FIELD63), "run")[0]
    computing_party.share("moments", (2,))
    with pytest.raises(ValueError, match="already"):
        computing_party.share("moments", (3,))
    computing_party.share("more moments", (2,))


def test_keys_must_be_those_of_all_the_others() -> None:
    scheme = Shamir(3, FIELD63)
    key = bytes(32)
    for computing_party, keys in (
        (0, {1: key}),
        (0, {0: key, 1: key, 2: key}),
        (3, {0: key, 1: key, 2: key}),
    ):
        with pytest.raises(ValueError, match="needs a key"):
            ZeroShares(scheme, computing_party, keys=keys, run="run")
    with pytest.raises(ValueError, match="32 bytes"):
        ZeroShares(scheme, 0, keys={1: key, 2: key[1:]}, run="run")
    with pytest.raises(ValueError, match="name of their run"):
        ZeroShares(scheme, 0, keys={1: key, 2: key}, run="")


def _middle_coefficient(shares: list[FieldArray]) -> np.ndarray:
    """What the receiver of three shares sees beside the secret: (h(1) − h(−1)) / 2."""
    _, plus, minus = shares
    result: np.ndarray = (plus - minus).times(FIELD63.inverse(2)).residues[0]
    return result


def _p_value(residues: np.ndarray) -> float:
    bins = residues.astype(np.int64) * 64 // FIELD63.primes[0]
    return float(stats.chisquare(np.bincount(bins, minlength=64)).pvalue)


def test_under_zero_shares_the_lower_coefficients_of_a_product_are_uniform() -> None:
    scheme = Shamir(3, FIELD63)
    # A sharing whose lower coefficient is far from uniform: every computing party's share is known in advance.
    secret = FIELD63.encode(np.full(20_000, 3))
    bare = [secret.times((1 + x) ** 2) for x in scheme.points]
    masked = [a + z for a, z in zip(bare, zero_shares(scheme, "run", "moments", (20_000,)), strict=True)]
    assert scheme.reconstruct(masked, 2).equals(scheme.reconstruct(bare, 2))
    assert _p_value(_middle_coefficient(masked)) > FALSE_ALARM
    # The control: without them it is one and the same number.
    assert _p_value(_middle_coefficient(bare)) < FALSE_ALARM
