"""Every transport keeps every law of channels: as the suite takes it, a context in which all names are connected."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from certificates import Root

from colonnade.runtime.channel import Channel, LoggedChannel, memory_network
from colonnade.runtime.identity import Trust, seal
from colonnade.testing import check_channel

Ends = Mapping[str, Channel]
ROOT = Root.make()


@asynccontextmanager
async def memory(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    yield memory_network(names)


@asynccontextmanager
async def logged(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    yield {name: LoggedChannel(end, lambda facts: None) for name, end in memory_network(names).items()}


@asynccontextmanager
async def sealed(names: tuple[str, ...]) -> AsyncIterator[Ends]:
    inner, trust = memory_network(names), Trust(ROOT.certificate)
    ends = await asyncio.gather(
        *(seal(inner[name], name, names, job="job", identity=ROOT.issue(name), trust=trust) for name in names)
    )
    yield dict(zip(names, ends, strict=True))


@pytest.mark.parametrize("network", [memory, logged, sealed])
def test_every_law_of_channels_holds(network: Callable[..., Any]) -> None:
    check_channel(network)
