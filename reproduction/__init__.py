"""The papers' tables and figures, run again: one module a paper, one page of results (docs/reproduction.md, which the
site completes); and studies of our own, with a page each.

    python -m reproduction --data FOLDER            all studies, then the page
    python -m reproduction --only skellam           some of them
    python -m reproduction --part "Figure 2"        parts with this in their title; each is kept as soon as it is run
    python -m reproduction --full                   as published also where that takes hours
    python -m reproduction --list                   every table and figure, and how much of it was run
    python -m reproduction --page                   the page again, from the results that are kept

Quoted numbers are those printed in a paper's text or tables; no curve is estimated. What cannot be run, because data
or a setting is not available, is said.
"""

import os

# One thread of linear algebra: threads that wait for each other on a busy machine took ten times the processor time of
# what they computed.
os.environ.setdefault("OMP_NUM_THREADS", "1")
