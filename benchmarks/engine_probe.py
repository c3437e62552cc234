"""What `engine.py` runs inside FLARE's job processes: rounds over our sealed channel, and bare requests, in turn.

These classes are allowed in the kits that the benchmark makes for itself, and in no others.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply as cell_reply
from nvflare.fuel.f3.cellnet.utils import new_cell_message

from colonnade.runtime.identity import seal
from colonnade.sites.flare import FlareChannel, site_address
from colonnade.sites.kit import Kit

PARTIES = ("bank", "shop")
FRAME = bytes(256 * 8)
WARM, BATCHES, ROUNDS = 50, 20, 25


class ProbeCoordinator(Controller):  # type: ignore[misc]  # FLARE has no types
    """Asks both sites to measure, and waits."""

    def start_controller(self, fl_ctx: Any) -> None:
        pass

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        task = Task(name="measure", data=Shareable())
        self.broadcast_and_wait(task, fl_ctx, list(PARTIES), len(PARTIES), abort_signal=abort_signal)

    def stop_controller(self, fl_ctx: Any) -> None:
        pass

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: Any
    ) -> None:
        pass


class ProbeMember(Executor):  # type: ignore[misc]  # FLARE has no types
    """Measures at the bank, answers at the shop."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            self.job = fl_ctx.get_job_id()
            self.me = fl_ctx.get_identity_name()
            self.cell = fl_ctx.get_engine().get_cell()
            self.kit = Kit.load(fl_ctx.get_engine().get_workspace().get_root_dir())
            addresses = {party: site_address(party, self.job) for party in PARTIES}
            self.channel = FlareChannel(self.me, self.cell, addresses)
            self.cell.core_cell.register_request_cb(
                "probe", "bare", lambda message: cell_reply(ReturnCode.OK, body=message.payload)
            )

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: Any, abort_signal: Any) -> Shareable:
        facts = asyncio.run(self.measure())
        if self.me == "bank":
            (self.kit.path / "engine.json").write_text(json.dumps(facts))
        return make_reply(ReturnCode.OK)

    async def measure(self) -> dict[str, Any]:
        await self.channel.open(60)
        sealed = await seal(
            self.channel, self.me, PARTIES, job=self.job, identity=self.kit.identity(), trust=self.kit.trust()
        )
        (peer,) = [party for party in PARTIES if party != self.me]

        async def rounds(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                await sealed.send(peer, "round", FRAME)
                await sealed.receive(peer, "round", 60)
            return (time.perf_counter() - began) / count

        def bare(count: int) -> float:
            target = site_address(peer, self.job)
            began = time.perf_counter()
            for _ in range(count):
                reply = self.cell.core_cell.send_request(
                    "probe", "bare", target, new_cell_message({}, FRAME), 60
                )
                if bytes(reply.payload) != FRAME:
                    raise RuntimeError("the bare request came back with something else")
            return (time.perf_counter() - began) / count

        await rounds(WARM)
        ours, plain = [], []
        for _ in range(BATCHES):
            ours.append(await rounds(ROUNDS))
            if self.me == "bank":
                plain.append(await asyncio.to_thread(bare, ROUNDS))
            # The other one waits here until the bare requests are over.
            await sealed.send(peer, "turn", b"")
            await sealed.receive(peer, "turn", 60)
        self.channel.stop(None)
        await self.channel.close()
        return {
            "round_ms": 1e3 * statistics.median(ours),
            "bare_ms": 1e3 * statistics.median(plain) if plain else 0.0,
        }
