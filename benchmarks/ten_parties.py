"""Ten parties with the files that each would write, and a job between them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from two_houses import job_text, policy_text, write_files

TEN = tuple(f"party{number}" for number in range(10))


def write_one_of_ten(folder: Path, party: str) -> dict[str, Any]:
    """The files of a party with one column; the first one has the label too."""
    drawn = np.random.default_rng(TEN.index(party)).uniform(size=50).round(3)
    values: dict[str, Any] = {"id": [f"p{row}" for row in range(50)], f"{party}_x": drawn}
    if party == TEN[0]:
        values["risk"] = np.where(drawn > 0.5, "high", "low")
    others = json.dumps([other for other in TEN if other != party])
    policy = policy_text(party, methods='["moments"]', epsilon=50.0, parties=others, options="")
    (folder / f"{party}.policy.toml").write_text(policy)
    announced = write_files(folder, party, values, budget=50.0)
    return {"party": announced, "policy": str(folder / f"{party}.policy.toml")}


def ten_text() -> str:
    text = job_text(epsilon=1.0, timeout=600).replace('["bank", "shop"]', json.dumps(list(TEN)))
    return text.replace('active = "bank"', f'active = "{TEN[0]}"')
