"""The alignment of `psi.py` done with SecretFlow's RR22, each side a process of its own, in the opponents' environment.

Both sides read a CSV, end with the common rows in one order, and write them, as that program does it.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path

from spu import libspu, psi


def side(rank: int, folder: str, ports: list[int], answers: multiprocessing.Queue) -> None:
    description = libspu.link.Desc()
    description.recv_timeout_ms = 3_600_000
    for number, port in enumerate(ports):
        description.add_party(f"party{number}", f"127.0.0.1:{port}")
    link = libspu.link.create_brpc(description, rank)
    config = psi.PsiExecuteConfig(
        protocol_conf=psi.PsiProtocolConfig(
            protocol=psi.PsiProtocol.PROTOCOL_RR22, receiver_rank=0, broadcast_result=True
        ),
        input_params=psi.InputParams(
            path=str(Path(folder) / f"{rank}.csv"), selected_keys=["id"], keys_unique=True
        ),
        output_params=psi.OutputParams(path=str(Path(folder) / f"{rank}.out.csv")),
    )
    start, started = time.perf_counter(), time.process_time()
    report = psi.psi_execute(config, link)
    figures = {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - started,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "common": report.intersection_count,
    }
    link.stop_link()
    answers.put(figures)


def main(count: int, folder: str, ports: list[int]) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    sides = [context.Process(target=side, args=(rank, folder, ports, answers)) for rank in (0, 1)]
    for process in sides:
        process.start()
    found = [answers.get(timeout=3600) for _ in sides]
    for process in sides:
        process.join()
    if {figures["common"] for figures in found} != {count - count // 2}:
        raise SystemExit("SPU found another intersection")
    print(
        json.dumps(
            {
                "cpu": sum(figures["cpu"] for figures in found),
                "wall": max(figures["wall"] for figures in found),
                "peak_mb": max(figures["peak_mb"] for figures in found),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], [int(port) for port in sys.argv[3:]])
