"""Run the notebooks and write them with their outputs: `python -m notebooks --data FOLDER --only pbm_vfl`."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import nbformat

from notebooks.making import FOLDER, executed, sources


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m notebooks", description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="a folder with public data sets; scikit-learn's own without it"
    )
    parser.add_argument("--only", nargs="*", choices=sorted(sources()), help="some of them; all without it")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where they are written")
    requested = parser.parse_args()
    os.environ["COLONNADE_DATA"] = "" if requested.data is None else str(requested.data.resolve())
    for name, source in sources().items():
        if requested.only and name not in requested.only:
            continue
        began = time.monotonic()
        notebook = executed(source)
        requested.output.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, requested.output / f"{name}.ipynb")  # type: ignore[no-untyped-call]
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
