"""Plans of protocols whose owners deal shares: columns as integers on one grid, and noise in parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, partial, reduce
from typing import Any, ClassVar

from colonnade.crypto.sharing import Shamir
from colonnade.data.coding import Mode
from colonnade.data.encoder import Encoder, Quantizer, Rounding
from colonnade.data.labels import LabelBlock, LabelBlocks
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError, PrivacyError
from colonnade.ledger import LedgerLine
from colonnade.numbers.field import Field
from colonnade.privacy import observers
from colonnade.privacy.events import Event
from colonnade.privacy.guarantee import View, account, epsilon_text
from colonnade.privacy.sensitivity.matrix import RowShape
from colonnade.protocols import assumptions
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Group


class Layout:
    """Encoders, label and quantizers of a plan: with m attributes in all, x is divided by √m, and c_q² = m_q/m."""

    group: Group
    schemas: tuple[PublicSchema, ...]
    gamma: int

    constants: ClassVar[int] = 0
    """How many constants beside the columns share that norm."""

    @property
    def mode(self) -> Mode:
        """How numbers become features: on a circle, which lifts every classifier."""
        return "circle"

    @property
    def rows_rounded(self) -> Rounding:
        return "nearest"

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        return {schema.party: schema.encoder(self.mode) for schema in self.schemas}

    @cached_property
    def label(self) -> LabelBlock:
        """The label's declaration; a constant where there is no label to learn."""
        return LabelBlock(next((schema.label for schema in self.schemas if schema.label is not None), None))

    @cached_property
    def labels(self) -> LabelBlocks:
        """The blocks of all labels that are learnt: one, unless a plan takes several."""
        return LabelBlocks((self.label,))

    @property
    def label_holder(self) -> str:
        declared = (schema.party for schema in self.schemas if schema.label is not None)
        return next(declared, self.group.owners[0])

    @property
    def attributes(self) -> int:
        return sum(encoder.attributes for encoder in self.encoders.values()) + self.constants

    @property
    def widths(self) -> dict[str, int]:
        return {
            party: encoder.width + (self.constants if party == self.label_holder else 0)
            for party, encoder in self.encoders.items()
        }

    @property
    def constant(self) -> int:
        """The integer that stands for "one" beside features: ⌊γ/√m⌋."""
        return math.isqrt(self.gamma**2 // self.attributes)

    @cached_property
    def quantizers(self) -> dict[str, Quantizer]:
        """How each owner turns its rows into integers, with the cap c_q² = m_q/m."""
        return {
            party: Quantizer(
                encoder,
                attributes_total=self.attributes,
                gamma=self.gamma,
                cap_squared=Fraction(encoder.attributes, self.attributes),
                rounding=self.rows_rounded,
            )
            for party, encoder in self.encoders.items()
        }

    @property
    def bounds(self) -> dict[str, int]:
        """The integer that the squared norm of each owner's part of a row never exceeds."""
        return {party: quantizer.norm_squared_bound for party, quantizer in self.quantizers.items()}

    def shape_of(self, party: str) -> RowShape:
        own = self.constants * self.constant**2 if party == self.label_holder else 0
        return RowShape(features=self.widths[party], norm_squared=self.bounds[party] + own)

    def shape_of_all_but(self, party: str | None) -> RowShape:
        """The bound on the rest of an integer row; on the whole row without a party."""
        rest = (self.shape_of(owner) for owner in self.group.owners if owner != party)
        return reduce(RowShape.alongside, rest)

    def layout_data(self) -> dict[str, Any]:
        return {
            "gamma": self.gamma,
            "mode": self.mode,
            "rounding": self.rows_rounded,
            "label": self.label.to_data(),
            "label_holder": self.label_holder,
            "bounds": self.bounds,
        }


class SharedPlan(Plan):
    """A plan whose owners deal shares to computing parties, whose dealers deal noise in parts, and that is published.

    It says what is opened is, to somebody who knows so many parts of the noise, for a record zeroed out (`zeroed`), for
    what others than an owner hold of it replaced (`others_replaced`) and for all of it replaced (`all_replaced`).
    """

    published = True
    noise_in_parts = True
    verify: assumptions.Verify = "none"
    """What is checked of what owners deal."""

    @property
    def share_holders(self) -> tuple[str, ...]:
        return self.group.computing_parties

    @property
    def shown_to(self) -> tuple[str, ...]:
        return ()

    @property
    def noise_from(self) -> tuple[str, ...]:
        return (observers.SERVER_NAME,) if self.group.server_deals else ()

    @property
    def further(self) -> str:
        return ""

    @property
    def party_verify(self) -> assumptions.Verify:
        """What parties' sentences may say of checks: none where nothing is stated with one more part missing."""
        return self.verify

    @property
    def server_adds(self) -> bool:
        return self.group.server_deals

    @property
    @abstractmethod
    def field(self) -> Field:
        """The field of the shares, in which nothing can wrap around, whatever the rows and the noise are."""

    def check_drawable(self) -> None:
        _ = self.field

    @cached_property
    def scheme(self) -> Shamir:
        return Shamir(len(self.group.computing_parties), self.field)

    @abstractmethod
    def zeroed(self, known: int) -> Event:
        """For a record zeroed out, to somebody who knows so many parts of the noise and no more than is opened."""

    @abstractmethod
    def others_replaced(self, owner: str, known: int) -> Event:
        """For what owners other than this one hold of a record, replaced."""

    @abstractmethod
    def all_replaced(self, known: int) -> Event | None:
        """For a record replaced by any other; None where so little noise is left that nothing is proved."""

    @property
    def replaced(self) -> Event:
        """For a record replaced by any other, to whoever knows as much of the noise as may be known."""
        event = self.all_replaced(self.group.tolerated)
        if event is None:
            raise PrivacyError("what may be known of the noise leaves nothing that could be stated.")
        return event

    @cached_property
    def views(self) -> tuple[View, ...]:
        group = self.group
        disclosed = self.zeroed(group.tolerated)
        # What it costs if one more part of the noise becomes known than may.
        if_disclosed = ""
        if group.tolerated <= self.server_adds:
            if_disclosed = self.stated(partial(self.zeroed, group.tolerated + 1))
        to_server = assumptions.server_assumption(group, if_disclosed, self.verify, deals=self.server_adds)
        views = [
            View(observers.Server(), observers.ZERO_OUT, disclosed, to_server + self.further),
            View(
                observers.Reader(),
                observers.ZERO_OUT,
                disclosed,
                assumptions.reader_assumption(group, if_disclosed, self.verify) + self.further,
            ),
        ]
        verify = self.party_verify
        known = assumptions.known_to_party(group, verify)
        for owner in group.owners:
            # It knows its own part, and those of t − 1 confederates.
            event, silent = self.others_replaced(owner, known), None
            if verify != "none" and self.server_adds and known == group.threshold:
                # Of two owners each relies on the server's part: with more, one part more is left out already.
                silent = self.stated(partial(self.others_replaced, owner, known + 1))
            views.append(
                View(
                    observers.PartyView(owner),
                    observers.OthersPart(owner),
                    event,
                    assumptions.party_assumption(group, verify, silent),
                )
            )
        return (*views, *self._colluding())

    def accounted(self) -> Iterator[Event]:
        """Everything that is to somebody: the views, what ledgers hold beside them, and what coalitions would learn."""
        yield from (view.event for view in self.views)
        replaced = self.all_replaced(self.group.tolerated)
        if replaced is not None:
            yield replaced
        yield from (event for _, event in self._pooled())

    def check_stated(self) -> None:
        """Refuse a plan from which some observer would learn more than can be stated."""
        for view in self.views:
            try:
                account(view.event, self.delta)
            except PrivacyError as error:
                raise PlanError(
                    f"{view.observer.sentence} would learn more by this plan than can be stated: {error}"
                ) from None

    def stated(self, event: Callable[[], Event]) -> str:
        try:
            cost = account(event(), self.delta)
        except PrivacyError:
            return "no ε can be stated"
        return f"ε = {epsilon_text(cost.epsilon)}"

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """Beside the views: a record replaced, to readers and to a server that knows a part of the noise."""
        if not self.views:
            return ()
        # The server is not a reader where it knows a part of the noise.
        looking = (
            (observers.Reader().name, observers.Server().name)
            if self.group.server_deals
            else (observers.Reader().name,)
        )
        replaced = self.replaced
        return (
            *super().lines_for(party),
            *(LedgerLine(observer, observers.REPLACE.name, replaced) for observer in looking),
        )

    def _colluding(self) -> tuple[View, ...]:
        """What coalitions of owners learn: what is opened, and their own noise, if they hold at most t shares.

        Owners that keep no share are any number, as long as one part stays unknown and an ε can be stated.
        """
        views = []
        for size, event in self._pooled():
            with suppress(PrivacyError):
                account(event, self.delta)
                views.append(
                    View(
                        observers.Colluding(size),
                        observers.OthersPart(),
                        event,
                        assumptions.coalition_assumption(self.group),
                    )
                )
        return tuple(views)

    def _pooled(self) -> Iterator[tuple[int, Event]]:
        """For every size of a coalition that leaves noise, what is opened is to it."""
        group = self.group
        keeping = [owner for owner in group.owners if owner in group.computing_parties]
        most = min(
            len(group.owners) - 1, min(group.threshold, len(keeping)) + len(group.owners) - len(keeping)
        )
        for size in range(max(2, group.threshold), most + 1):
            event = self.all_replaced(max(size, group.threshold))
            if event is not None:
                yield size, event
