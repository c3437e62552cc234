"""What `colonnade doctor` looks at when nothing is named: this machine, these packages, and whether they compute right.

The self-tests take about a second. Those that look at fresh randomness are wrong about a good machine less often than
once in 10¹² times.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from colonnade.cli.doctor.findings import Finding

LEAST_DISK = 1 << 30
EXTRAS = {
    "networks": "neural networks",
    "flare": "federations between machines",
    "postgres": "data in PostgreSQL",
    "onnx": "models as ONNX",
    "board": "the web page of an organisation",
}
# Eight standard deviations.
FAR = 8.0
DRAWS = 20_000
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<limits>[^;]*)(?:;\s*extra == ['\"](?P<extra>\w+)['\"])?"
)
_LIMIT = re.compile(r"(?P<sign>>=|<)\s*(?P<version>[\d.]+)")


@dataclass(frozen=True)
class Need:
    """A package that this installation says that it needs, at least of one version and below another."""

    name: str
    least: str = ""
    below: str = ""
    extra: str | None = None

    @classmethod
    def parse(cls, text: str) -> Need:
        match = _REQUIREMENT.match(text)
        if match is None:
            raise ValueError(f"{text!r} is no requirement")
        limits = {limit["sign"]: limit["version"] for limit in _LIMIT.finditer(match["limits"])}
        return cls(match["name"], limits.get(">=", ""), limits.get("<", ""), match["extra"])

    def __str__(self) -> str:
        limits = [f">={self.least}"] * bool(self.least) + [f"<{self.below}"] * bool(self.below)
        return self.name + ",".join(limits)

    def fits(self, version: str) -> bool:
        release = _release(version)
        return _release(self.least) <= release and not (self.below and release >= _release(self.below))

    @property
    def problem(self) -> str:
        try:
            installed = importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return f"{self.name} is not installed"
        if not self.fits(installed):
            until = f" and before {self.below}" if self.below else ""
            return f"{self.name} {self.least} or later{until} is needed, and {installed} is installed"
        return ""


def examine_installation() -> Iterator[Finding]:
    """Everything that can be looked at without a job or a kit, one after the other."""
    looks: tuple[tuple[str, Callable[[str], Finding]], ...] = (
        ("python", _python),
        ("packages", _packages),
        *((extra, _extra) for extra in EXTRAS),
        ("processor", _processor),
        ("clock", _clock),
        ("disk", _disk),
        ("compiled", _compiled),
        ("integers", _integers),
        ("randomness", _randomness),
        ("noise", _noise),
        ("ledger", _ledger),
    )
    for what, look in looks:
        try:
            yield look(what)
        except Exception as error:
            # Whatever a broken package raises is what is wrong with it.
            reason = str(error).splitlines()[0] if str(error) else ""
            yield Finding(
                what,
                False,
                f"it stopped with {type(error).__name__}: {reason}",
                "Install Colonnade again in a new environment: pip install colonnade.",
            )


def _python(what: str) -> Finding:
    found = f"{platform.python_version()}, {platform.machine()}, {platform.system()}, {8 * _pointer()} bit"
    fine = sys.version_info >= (3, 11) and _pointer() == 8
    return Finding(what, fine, found, "Use a 64 bit Python 3.11 or later.")


def _pointer() -> int:
    return 8 if sys.maxsize > 2**32 else 4


def needs(extra: str | None = None) -> list[Need]:
    """What this installation says that it needs, for itself or for an extra."""
    listed = map(Need.parse, importlib.metadata.requires("colonnade") or ())
    return [need for need in listed if need.extra == extra]


def _release(version: str) -> tuple[int, ...]:
    numbers = re.match(r"[\d.]*", version)
    return tuple(int(piece) for piece in (numbers[0] if numbers else "").split(".") if piece)


def _packages(what: str) -> Finding:
    from colonnade import __version__

    wanted = needs()
    wrong = [need for need in wanted if need.problem]
    if not wrong:
        return Finding(what, True, f"colonnade {__version__} and the {len(wanted)} packages it needs")
    remedy = " ".join(f"'{need}'" for need in wrong)
    return Finding(what, False, "; ".join(need.problem for need in wrong), f"pip install {remedy}")


def _extra(extra: str) -> Finding:
    """An extra that is not there is no problem; one of a version that was never tested is."""
    wanted = needs(extra)
    wrong = [need.problem for need in wanted if need.problem]
    install = f"pip install 'colonnade[{extra}]'"
    if not wrong:
        versions = ", ".join(f"{need.name} {importlib.metadata.version(need.name)}" for need in wanted)
        return Finding(extra, True, f"{versions}, for {EXTRAS[extra]}")
    absent = all(said.endswith("is not installed") for said in wrong)
    found = f"not installed; for {EXTRAS[extra]}: {install}" if absent else "; ".join(wrong)
    return Finding(extra, absent, found, install)


def _processor(what: str) -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        aes = " with AES" if re.search(r"\baes\b", flags) else " without AES, so that noise is drawn slower"
    except OSError:
        aes = ""
    return Finding(what, True, f"{cores} cores{aes}")


def _clock(what: str) -> Finding:
    now = datetime.datetime.now(datetime.UTC)
    written = datetime.datetime.fromtimestamp(Path(__file__).stat().st_mtime, datetime.UTC)
    remedy = "Set the clock: ledgers write down when something was charged, and certificates have an end."
    return Finding(what, now >= written, f"{now:%Y-%m-%d %H:%M} UTC", remedy)


def _disk(what: str) -> Finding:
    places = {"here": Path.cwd(), "for temporary files": Path(tempfile.gettempdir())}
    free = {where: shutil.disk_usage(path).free for where, path in places.items()}
    found = ", ".join(f"{size >> 20} MB free {where}" for where, size in free.items())
    return Finding(
        what, min(free.values()) >= LEAST_DISK, found, f"Make room: {LEAST_DISK >> 20} MB at least."
    )


def _compiled(what: str) -> Finding:
    """Whether compiled loops can be kept: without a place for them, every start compiles for half a minute."""
    import numba

    from colonnade.numbers import compiled

    chosen = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(chosen) if chosen else Path(compiled.__file__).parent / "__pycache__"
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        remedy = (
            "Set NUMBA_CACHE_DIR to a folder that you can write to, so that loops are compiled once only."
        )
        return Finding(what, False, f"{nearest} cannot be written", remedy)
    return Finding(what, True, f"numba {numba.__version__} keeps compiled loops in {place}")


def _integers(what: str) -> Finding:
    """Products in the field by the compiled loops, and of large numbers by gmpy2, against Python's own integers."""
    import gmpy2
    import numpy as np

    from colonnade.numbers.field import FIELD126

    values = np.arange(-500, 500, dtype=np.int64) * 9_007_199_254
    array = FIELD126.encode(values)
    products = array.multiply(array).decode()
    right = [int(value) ** 2 for value in values] == [int(value) for value in products]
    base, exponent, modulus = 3**200, 5**180, 7**190
    right = right and int(gmpy2.powmod(base, exponent, modulus)) == pow(base, exponent, modulus)
    found = "products in the field and of large numbers are right" if right else "products are wrong"
    return Finding(what, right, found, "Install numba, numpy and gmpy2 again; do not use this installation.")


def _randomness(what: str) -> Finding:
    """The stream of a known key against its known bytes; fresh bits that are balanced and never the same."""
    import numpy as np

    from colonnade.randomness import KeyedRandomness, SystemRandomness

    # AES-256 in counter mode, key and counter zero: the block cipher of FIPS 197 on an empty block.
    known = KeyedRandomness(bytes(32)).bytes(16).hex() == "dc95c078a2408989ad48a21492842087"
    began = time.perf_counter()
    words = SystemRandomness().words(1 << 20)
    seconds = time.perf_counter() - began
    bits = 64 * len(words)
    ones = int(np.bitwise_count(words).sum())
    balanced = abs(2 * ones - bits) < FAR * math.sqrt(bits)
    fresh = SystemRandomness().bytes(32) != SystemRandomness().bytes(32)
    fine = known and balanced and fresh
    found = (
        f"bits are fresh and balanced, {8 * len(words) / seconds / 1e6:.0f} MB a second"
        if fine
        else "the source of random bits fails its test"
    )
    return Finding(what, fine, found, "Do not use this installation: noise would not hide anything.")


def _noise(what: str) -> Finding:
    from colonnade.noise.skellam import SkellamNoise
    from colonnade.randomness import SystemRandomness

    mu = Fraction(10**6)
    drawn = SkellamNoise(mu).draw(DRAWS, SystemRandomness()).astype(float)
    variance = 2.0 * float(mu)
    mean = abs(drawn.mean()) / math.sqrt(variance / DRAWS)
    spread = abs((drawn**2).mean() / variance - 1) / math.sqrt(2 / DRAWS)
    fine = bool(mean < FAR and spread < FAR)
    found = f"{DRAWS} draws have the mean and the variance they must have"
    return Finding(
        what,
        fine,
        found if fine else "noise has the wrong mean or variance",
        "Do not use this installation: its ε would be wrong.",
    )


def _ledger(what: str) -> Finding:
    import sqlite3

    from colonnade.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "doctor.ledger", "doctor")
        ledger.set_budget("people", "*", "*", epsilon=1.0, delta=1e-6)
        entries = ledger.verify().entries
    return Finding(what, entries == 2, f"ledgers can be made and verified (SQLite {sqlite3.sqlite_version})")
