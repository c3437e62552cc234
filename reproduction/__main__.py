"""Run studies and write the page: `python -m reproduction --data FOLDER`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from reproduction.exhibits import EXHIBITS, listing
from reproduction.page import PAGE, page
from reproduction.sections import load, save, timed
from reproduction.studies import STUDIES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("COLONNADE_DATA") or "."),
        help="the folder with the data sets",
    )
    parser.add_argument(
        "--only", help="some studies, with commas: " + ", ".join(study.name for study in STUDIES)
    )
    parser.add_argument("--quick", action="store_true", help="tiny runs that only show that the frame works")
    parser.add_argument(
        "--page", action="store_true", help="only write the page, from the results that are kept"
    )
    parser.add_argument(
        "--list", action="store_true", help="every table and figure of the papers, and how much of it was run"
    )
    parser.add_argument("--json", action="store_true", help="with --list: one JSON object")
    arguments = parser.parse_args()
    if arguments.list:
        found = listing()
        share = f"{found['cells_run']} of {found['cells_printed']} cells whose data is at hand were run"
        _say(json.dumps(found) if arguments.json else "\n".join([*(e.line() for e in EXHIBITS), share]))
        return
    wanted = (
        arguments.only.split(",") if arguments.only else [study.name for study in STUDIES if study.exists]
    )
    unknown = sorted(set(wanted) - {study.name for study in STUDIES if study.exists})
    if unknown:
        sys.exit(
            f"there is no study called {', '.join(unknown)}; there are {', '.join(s.name for s in STUDIES if s.exists)}"
        )
    for study in STUDIES:
        if study.name not in wanted or arguments.page:
            continue
        _say(f"{study.name} …")
        with timed() as watch:
            sections = study.run(arguments.data, quick=arguments.quick)
        sections = [
            replace(section, command=section.command or (study.command if section.seconds else ""))
            for section in sections
        ]
        _say(f"{study.name}: {len(sections)} sections in {watch.seconds:.0f} s")
        if not arguments.quick:
            save(study.name, sections)
        else:
            _say("\n\n".join(section.markdown() for section in sections))
    if not arguments.quick:
        PAGE.write_text(page({study.name: load(study.name) for study in STUDIES}), encoding="utf-8")
        _say(str(PAGE))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
