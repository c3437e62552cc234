"""Ten parties with the files that each would write, and a job between them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from two_houses import job_text

TEN = tuple(f"party{number}" for number in range(10))


def write_one_of_ten(folder: Path, party: str) -> dict[str, Any]:
    """The files of a party with one column; the first one has the label too."""
    drawn = np.random.default_rng(TEN.index(party)).uniform(size=50)
    label = party == TEN[0]
    rows = [
        f"p{row},{value:.3f}{',yes' if label and value > 0.5 else ',no' if label else ''}"
        for row, value in enumerate(drawn)
    ]
    (folder / f"{party}.csv").write_text("\n".join([f"id,{party}_x{',risk' if label else ''}", *rows]))
    (folder / f"{party}.schema.toml").write_text(
        f'id = "id"\ncolumns.{party}_x = {{kind = "numeric", low = 0, high = 1}}\n'
        + ('label = {column = "risk", kind = "classes", classes = ["no", "yes"]}\n' if label else "")
    )
    (folder / f"{party}.toml").write_text(
        f'party = "{party}"\ndata = "{party}.csv"\nschema = "{party}.schema.toml"\ndataset = "d"\n'
        f'ledger = "{party}.ledger"\nbudget = [{{epsilon = 50.0, delta = 1e-5}}]\n'
    )
    others = json.dumps([other for other in TEN if other != party])
    (folder / f"{party}.policy.toml").write_text(
        f'methods = ["moments"]\nparties = {others}\ndelta = 1e-5\nepsilon = {{"*" = 50.0}}\n'
    )
    return {
        name: str(folder / f"{party}{end}") for name, end in (("party", ".toml"), ("policy", ".policy.toml"))
    }


def ten_text() -> str:
    """A job between all of them."""
    text = job_text(epsilon=1.0, timeout=600).replace('["bank", "shop"]', json.dumps(list(TEN)))
    return text.replace('active = "bank"', f'active = "{TEN[0]}"')
