"""How a suite holds a case to its laws, and what it says when one does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

Case = TypeVar("Case")


class ConformanceError(AssertionError):
    """A law that does not hold; `law` is its name."""

    def __init__(self, law: str, *, expected: str, actual: str) -> None:
        super().__init__(f"{law}: expected {expected}, found {actual}.")
        self.law = law


class Broken(Exception):
    """Raised inside a law, which does not know its own name."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(expected, actual)
        self.expected, self.actual = expected, actual


def expect(holds: bool, expected: str, actual: object) -> None:
    if not holds:
        raise Broken(expected, str(actual))


def expect_refusal(
    attempt: Callable[[], object], kinds: type[Exception] | tuple[type[Exception], ...], what: str
) -> str:
    named = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
    try:
        result = attempt()
    except kinds as error:
        return str(error)
    except Exception as error:
        raise Broken(f"{what} to be refused with {named}", f"{type(error).__name__}: {error}") from error
    raise Broken(f"{what} to be refused with {named}", f"it was taken, and gave {type(result).__name__}")


def expect_named(message: str, *names: str) -> None:
    missing = [name for name in names if name not in message]
    expect(not missing, f"a message that names {', '.join(map(repr, missing))}", repr(message))


@contextmanager
def law_check(law: str) -> Iterator[None]:
    """Whatever goes wrong inside is a breach of this law, also what was not foreseen."""
    try:
        yield
    except Broken as broken:
        raise ConformanceError(law, expected=broken.expected, actual=broken.actual) from broken.__cause__
    except Exception as error:
        raise ConformanceError(law, expected="no error", actual=f"{type(error).__name__}: {error}") from error


def hold(laws: Mapping[str, Callable[[Case], None]], case: Case) -> None:
    for name, law in laws.items():
        with law_check(name):
            law(case)
