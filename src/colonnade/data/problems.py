"""What can be wrong with the values of a column, as counts: they go to whoever holds the data, the values nowhere."""

from __future__ import annotations

from dataclasses import dataclass, fields

from colonnade.errors import BadValues

# What tables have where a value is not known, in small letters; no category is called so.
NO_VALUE = frozenset(
    {"na", "n/a", "nan", "null", "nil", "?", "#n/a", "#null!", "#div/0!", "#value!", "#ref!", "#num!"}
)
# The same where a number is declared: these may also be categories.
MARKS = NO_VALUE | {"none", "missing", "unknown", "-", "--", "."}
_SAID = {
    "missing": "missing (empty, NULL or NaN)",
    "infinite": "infinite",
    "marked": "written as a mark for what is missing, such as NA",
    "text": "text where a number is declared",
    "grouped": "written with thousands separators or a decimal comma",
    "undated": "not dates as declared",
    "fractional": "not whole where a count is declared",
    "undeclared": "not among the declared ones",
    "misspelt": "among the declared ones but for spelling (capitals, blanks, forms of letters, zeros)",
    "truth": "true or false, which are not declared",
    "binary": "binary",
    "nested": "in lists or records, and a column here has one value for each person",
    "unread": "of a type that is not read",
}
_ADVICE = {
    "nested": "Unfold it into columns of their own first.",
    "binary": "Leave the column out, or turn it into numbers, dates or text.",
    "unread": "Leave the column out, or turn it into numbers, dates or text.",
    "truth": "Declare true and false, without quotation marks, or turn them into the declared values.",
    "undeclared": "Declare every value that can occur, or a category that takes in the others.",
    "misspelt": 'Declare case = "fold" and unicode = "NFKC" for the column, or the values as the data has them.',
    "undated": "Write dates as 2000-01-31, or declare how they are written, such as format = '%d.%m.%Y'.",
    "grouped": "Write numbers as 1234.5, without separators.",
    "text": "Correct the file, or declare the column categorical.",
    "marked": "Leave such cells empty, and declare what a missing value counts as, such as missing = {value = …}.",
    "missing": "Declare what a missing value counts as, such as missing = {value = …}, or leave these rows out at "
    "every party.",
}


@dataclass(frozen=True)
class Problems:
    """How many values of a column cannot be used, by reason."""

    missing: int = 0
    infinite: int = 0
    marked: int = 0
    text: int = 0
    grouped: int = 0
    undated: int = 0
    fractional: int = 0
    undeclared: int = 0
    misspelt: int = 0
    truth: int = 0
    binary: int = 0
    nested: int = 0
    unread: int = 0

    def __add__(self, other: Problems) -> Problems:
        return Problems(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, count: int) -> Problems:
        return Problems(*(getattr(self, f.name) * count for f in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    @property
    def sentence(self) -> str:
        counts = {what: getattr(self, problem) for problem, what in _SAID.items()}
        return ", ".join(
            f"{count} value is {what}" if count == 1 else f"{count} values are {what}"
            for what, count in counts.items()
            if count
        )

    @property
    def advice(self) -> str:
        usual = "Correct them, or leave these rows out at every party."
        return next((advice for problem, advice in _ADVICE.items() if getattr(self, problem)), usual)

    def refuse(self, where: str) -> None:
        if self:
            raise BadValues(f"{where}: {self.sentence}. {self.advice}")
