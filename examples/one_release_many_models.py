"""A bank and an insurer pay for one release and ask it many questions, on another day too.

What is opened is one noisy matrix of second moments. Everything that follows is computed from it, so it costs nothing,
however often one asks: another model, fewer columns, components, a ranking of the columns, error bars.

Look at: the bank's ledger, which is the same before and after five models; and the columns that the ranking says
noise could explain. The people are made up, and shoe size has nothing to do with anything.
"""

from pathlib import Path

import numpy as np

from colonnade import PCA, Federation, LogisticRegression, MomentRelease, Schema, Table, rank_columns
from colonnade.privacy.guarantee import epsilon_text

BANK = """
id = "customer"
columns.income = {kind = "numeric", low = 0, high = 100}
columns.debts = {kind = "numeric", low = 0, high = 50}
label = {column = "repaid", kind = "classes", classes = ["no", "yes"]}
"""
INSURER = """
id = "person"
columns.claims = {kind = "numeric", low = 0, high = 5}
columns.shoe_size = {kind = "numeric", low = 34, high = 48}
"""


def spent(federation: Federation) -> str:
    """What the bank's ledger says has left for the server."""
    (total,) = [
        total
        for total in federation.ledgers["bank"].totals()
        if total.observer == "server" and total.unit == "record"
    ]
    return f"{epsilon_text(total.epsilon)} of {total.budget_epsilon:.2f}"


def main() -> None:
    rng = np.random.default_rng(1)
    income, debts = rng.uniform(0, 100, 5000), rng.uniform(0, 50, 5000)
    claims, shoes = rng.poisson(1.0, 5000), rng.uniform(34, 48, 5000)
    repaid = np.where(income - debts - 10 * claims + rng.normal(0, 15, 5000) > 10, "yes", "no")
    bank = Table.from_arrays("bank", {"income": income, "debts": debts, "repaid": repaid}, Schema.parse(BANK))
    insurer = Table.from_arrays("insurer", {"claims": claims, "shoe_size": shoes}, Schema.parse(INSURER))
    federation = Federation([bank, insurer], budget=(1.5, 1e-6))

    federation.moments(task="classification", epsilon=1.0, delta=1e-6).save("moments.npz")
    before = spent(federation)

    # On another day, perhaps on another machine: the file is all that is needed, and it is public.
    release = MomentRelease.load(Path("moments.npz"))
    print(release)
    people = {"income": [90, 20], "debts": [5, 45], "claims": [0, 3], "shoe_size": [40, 40]}
    everything = LogisticRegression().fit(release)
    print("all columns:      ", everything.predict_proba(people)[:, 1].round(2))
    bank_only = LogisticRegression().fit(release.select(parties=["bank"]))
    print("the bank's only:  ", bank_only.predict_proba(people)[:, 1].round(2))
    cautious = LogisticRegression(threshold=0.9).fit(release)
    print("lends when sure:  ", cautious.predict(people))
    print("first component:  ", PCA(n_components=1).fit(release).components_.round(2))
    print(rank_columns(release))

    print(
        f"\nthe bank's ledger for the server, before the models: ε = {before}, after: ε = {spent(federation)}"
    )


if __name__ == "__main__":
    main()
