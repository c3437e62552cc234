"""How text is compared: the one spelling of a category, a class or an id, and the rules that a schema declares."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

Case = Literal["exact", "lower", "upper", "fold"]
UnicodeForm = Literal["exact", "NFC", "NFD", "NFKC", "NFKD"]


def text_of(value: object) -> str:
    """The one spelling under which a category, a class or an id is compared, if no other rule is declared.

    Text without the blanks around it; integers in decimal; true and false; floats as Python writes them.
    Nothing else is folded: "012" is not "12", and "F" is not "f". "12.0" is not "12" in an id; in a column it is the
    category 12 if there is one.
    """
    return plain_text(value).strip()


@dataclass(frozen=True)
class Spelling:
    """A declared rule for text: what makes two spellings the same category or the same person.

    Every party that is to find the same people must declare the same rule. Unicode comes before case and once
    more after it, because folding can undo a normal form; so spelling twice changes nothing more.
    """

    trim: bool = True
    case: Case = "exact"
    unicode: UnicodeForm = "exact"

    def __post_init__(self) -> None:
        for key, value, choices in (
            ("case", self.case, get_args(Case)),
            ("unicode", self.unicode, get_args(UnicodeForm)),
        ):
            if value not in choices:
                raise ValueError(f"{key} = {value!r} is not one of {', '.join(choices)}")

    def spell(self, value: object) -> str:
        text = self._normal(plain_text(value))
        match self.case:
            case "lower":
                text = self._normal(text.lower())
            case "upper":
                text = self._normal(text.upper())
            case "fold":
                text = self._normal(text.casefold())
            case _:
                pass
        # Last, because a compatibility form can turn other characters into blanks.
        return text.strip() if self.trim else text

    def to_data(self) -> dict[str, object]:
        """What differs from the rule that holds undeclared."""
        usual = Spelling()
        return {
            key: value
            for key, value in (("trim", self.trim), ("case", self.case), ("unicode", self.unicode))
            if value != getattr(usual, key)
        }

    def _normal(self, text: str) -> str:
        return text if self.unicode == "exact" else unicodedata.normalize(self.unicode, text)


def plain_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(value)


AS_WRITTEN = Spelling()
