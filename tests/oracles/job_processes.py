"""A process that looks as a job's does: it names the kit, and is called by the job."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.sites.kit import Kit
from colonnade.sites.processes import JOB_PROCESS, MAX_NAME

_PROGRAM = "import sys; open('/proc/self/comm', 'w').write(sys.argv[3]); print(flush=True); sys.stdin.read()"


@contextmanager
def job_at_work(kit: Kit, job: str) -> Iterator[None]:
    command = [sys.executable, "-c", _PROGRAM, JOB_PROCESS, str(kit.path), job[:MAX_NAME]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout is not None:
            process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
