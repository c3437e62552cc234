"""How quick a machine is, by the few kernels that the seconds of a run go into, and how wide the lines between them.

A rehearsal happens on the machine at hand. For another one its seconds are stretched by how much slower the other is at
the kernel that the protocol spends most of its time in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.crypto.modular import MontgomeryModulus, usable_cores
from colonnade.errors import FormError, InputError
from colonnade.methods.method import Kernel
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import FIELD63
from colonnade.numbers.threads import one_thread
from colonnade.planning.clock import Clock
from colonnade.planning.cost import Cost
from colonnade.randomness import SystemRandomness

SECONDS = 0.05


@dataclass(frozen=True)
class Machine:
    """How many a second: products in a prime field, draws of noise, products modulo 4096 bits, products of floats."""

    cores: int
    products: float
    draws: float
    powers: float
    floats: float

    @staticmethod
    @cache
    def measured() -> Machine:
        """This machine, in less than a second; the same answer ever after."""
        randomness = SystemRandomness()
        side, rows = 64, 4096
        shares = FIELD63.uniform((rows, side), randomness)
        noise = SkellamNoise(Fraction(10**6))
        modulus = MontgomeryModulus((1 << 4095) + 1)
        numbers = modulus.enter([3 + number for number in range(64)])
        floats = np.ones((512, 512))
        # As parties compute: by one thread of BLAS each.
        with one_thread():
            return Machine(
                cores=usable_cores(),
                products=_rate(lambda: shares.transpose_times(shares), rows * side * side),
                draws=_rate(lambda: noise.draw(1 << 16, randomness), 1 << 16),
                powers=_rate(lambda: modulus.multiply(numbers, numbers), 64),
                floats=_rate(lambda: floats @ floats, 512**3),
            )

    @classmethod
    def load(cls, path: Path) -> Machine:
        """The machine in a JSON file: what `to_data` gives, or the whole answer of `colonnade plan --json`."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{path} cannot be read ({error.strerror}). Name a file that `colonnade plan --json` wrote."
            ) from None
        except ValueError:
            raise FormError(
                f"{path} is not JSON. `colonnade plan JOB --json` on that machine writes one."
            ) from None
        facts = data.get("machine", data) if isinstance(data, dict) else {}
        names = [field.name for field in fields(cls)]
        for name in names:
            value = facts.get(name) if isinstance(facts, dict) else None
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise FormError(
                    f"{path}, {name}: found {value!r}, wanted a number above 0. A machine has {', '.join(names)}; "
                    "`colonnade plan JOB --json` on that machine writes them."
                )
        return cls(int(facts["cores"]), *(float(facts[name]) for name in names[1:]))

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    def stretch(self, kernel: Kernel, *, to: Machine) -> float:
        """How many seconds another machine needs for one of this one's."""
        return float(getattr(self, kernel) / getattr(to, kernel))


@dataclass(frozen=True)
class NetworkLink:
    """The connection of each party: bits a second, both ways together, and seconds from one party to another."""

    bandwidth: float = math.inf
    latency: float = 0.0

    def seconds(self, cost: Cost) -> float:
        """What the connection adds: every round waits once, and the busiest member's bytes pass one by one."""
        return cost.rounds * self.latency + 8 * cost.busiest / self.bandwidth


def _rate(work: Callable[[], object], amount: float) -> float:
    work()
    best, spent = math.inf, 0.0
    while spent < SECONDS:
        with Clock() as clock:
            work()
        best, spent = min(best, clock.wall), spent + clock.wall
    return amount / best
