"""The program of a job's process: it reads its libraries, waits for a job, runs FLARE's part of it and ends.

    python -m colonnade.sites.job_process party KIT

`colonnade.sites.processes` starts it before there is a job, and hands one over on its input. Without one it ends when
that is closed. FLARE's own program for a job is run as it is, without waits that our jobs do not need.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from colonnade.sites.processes import MAX_NAME, SPARE

# FLARE imports this when a job ends, to abandon downloads of tensors, and PyTorch with it, which takes seconds. Our
# jobs download none: not to be had is an answer that FLARE takes.
_NOT_NEEDED = "nvflare.app_opt.pt.tensor_downloader"
# FLARE waits this long after a job's messaging has ended, for what might still be underway there: nothing is.
_GRACE_SECONDS = 0.1


def run(kind: str) -> int:
    jobs: list[dict[str, Any]] = []
    listening = threading.Thread(target=_listen, args=(jobs,), name="colonnade listens")
    listening.start()
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.client import worker_process
    from nvflare.private.fed.app.server import runner_process

    from colonnade.sites import remote

    del remote  # FLARE imports it by the name in the job, and then it is there
    program = {"party": worker_process, "server": runner_process}[kind]
    _call_self(SPARE)
    listening.join()
    os.environ.update(jobs[0]["credentials"])
    sys.argv[1:] = jobs[0]["arguments"]
    sys.modules[_NOT_NEEDED] = None  # type: ignore[assignment]
    arguments = program.parse_arguments()
    _call_self(arguments.job_id)
    code = MainProcessMonitor.run(
        main_func=program.main,
        run_dir=str(Path(arguments.workspace, arguments.job_id)),
        shutdown_grace_time=_GRACE_SECONDS,
        args=arguments,
    )
    return code if isinstance(code, int) else 0


def _call_self(name: str) -> None:
    """Be found under a name by `ps -o pid,comm`; the command line is older than the job, and cannot say which it is."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name[:MAX_NAME], encoding="utf-8")


def _listen(jobs: list[dict[str, Any]]) -> None:
    """Take a job, or end this process at once if whoever would hand one over is gone, whatever it does meanwhile."""
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        os._exit(0)
    jobs.append(json.loads(line))


if __name__ == "__main__":
    ended = run(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written and closed: taking the interpreter apart takes a second, and nobody needs it.
    os._exit(ended)
