"""What one client pays to mask its values in a secure sum, against one raw AES-CTR pass over the same bytes.

10^7 values and ten parties: nine pairwise streams. The client's cost is everything it does for the step: deriving
nine stream keys, checking the range, nine streams, the additions, the reduction and the memory for the result. The raw
pass is AES-256-CTR over the words as they travel, in one call into memory that is already there.

* ``ratio_to_aes``: client seconds over raw seconds, processor time, medians of interleaved repetitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.crypto.masks import MaskStreams, SumRing
from colonnade.crypto.sealing import AgreementKey
from colonnade.randomness import SystemRandomness

VALUES, PARTIES, LARGEST = 10_000_000, 10, 1 << 27


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    ring = SumRing(PARTIES, LARGEST)
    names = [f"party{place}" for place in range(PARTIES)]
    agreement = {name: AgreementKey.generate(SystemRandomness()) for name in names}
    places = {name: place for place, name in enumerate(names)}

    def streams(name: str, run: bytes) -> MaskStreams:
        mine = agreement[name]
        return MaskStreams(
            name,
            places,
            {peer: mine.agree(agreement[peer].public, context=run) for peer in names if peer != name},
        )

    small = [np.random.default_rng(place).integers(0, LARGEST + 1, 1000) for place in range(PARTIES)]
    sent = [
        streams(name, b"check").masked(values, ring, step="sum")
        for name, values in zip(names, small, strict=True)
    ]
    if not np.array_equal(ring.total(sent), sum(small)):
        raise SystemExit("the sum is not the exact sum")

    values = np.random.default_rng(0).integers(0, LARGEST + 1, VALUES)
    client = streams(names[4], b"bench")
    words = values.astype(ring.dtype)
    target = np.zeros_like(words)
    ours, raw = [], []
    for repeat in range(arguments.repeats):
        start = time.process_time()
        client.masked(values, ring, step=f"step {repeat}")
        ours.append(time.process_time() - start)
        encryptor = Cipher(algorithms.AES(bytes(32)), modes.CTR(bytes(16))).encryptor()
        start = time.process_time()
        encryptor.update_into(words.view(np.uint8).data, target.view(np.uint8).data)
        raw.append(time.process_time() - start)
    figures = {
        "ratio_to_aes": round(statistics.median(ours) / statistics.median(raw), 2),
        "client_seconds": round(statistics.median(ours), 4),
        "aes_seconds": round(statistics.median(raw), 4),
        "values": VALUES,
        "parties": PARTIES,
        "bits": ring.bits,
        "bytes_sent": words.nbytes,
    }
    print(json.dumps(figures) if arguments.json else "\n".join(f"{k}: {v}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
