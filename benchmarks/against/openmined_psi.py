"""The intersection of `psi.py` done with OpenMined's PSI, both sides in one process, in the opponents' environment.

The raw structure is exact and does the least work; the intersection is revealed to the client only.
"""

from __future__ import annotations

import json
import sys
import time

import private_set_intersection.python as psi


def main(count: int) -> None:
    client_ids = [f"person-{number}" for number in range(count)]
    server_ids = [f"person-{number}" for number in range(count // 2, count + count // 2)]
    start, started = time.perf_counter(), time.process_time()
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(1e-9, count, server_ids, psi.DataStructure.RAW)
    request = client.CreateRequest(client_ids)
    found = client.GetIntersection(setup, server.ProcessRequest(request))
    figures = {"wall": time.perf_counter() - start, "cpu": time.process_time() - started}
    if len(found) != count - count // 2:
        raise SystemExit("OpenMined found another intersection")
    print(json.dumps(figures))


main(int(sys.argv[1]))
