"""A bank and an insurer pay for one release by class, and boosted trees learn from it what a line cannot.

The release says of each class how often two columns have two levels together. From it a table of synthetic people is
drawn, as many as one likes and at no further ε. Any tool can be trained on such a table: here LightGBM itself, and
`GradientBoostedTrees`, which draws the table, keeps trees as shallow as the release allows and checks them.

Look at: the linear model, which can hardly tell the classes apart, because the risk is in the young who drive much and
the old who drive little; and the ledger, which no model moves. Needs LightGBM: pip install 'colonnade[trees]'.
"""

import lightgbm
import numpy as np
from sklearn.metrics import roc_auc_score

from colonnade import Federation, GradientBoostedTrees, LogisticRegression, Schema, Table

BANK = """
id = "customer"
columns.age = {kind = "numeric", low = 18, high = 78, encoding = "bins", bins = 4}
columns.job = {kind = "categorical", categories = ["clerk", "farmer", "pilot"]}
label = {column = "risk", kind = "classes", classes = ["low", "high"]}
"""
INSURER = """
id = "person"
columns.mileage = {kind = "numeric", low = 0, high = 40, encoding = "bins", bins = 4}
"""
ROWS, EPSILON = 20_000, 2.0


def people(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Made-up people, whose risk is in what two columns of two parties say together."""
    age, mileage = rng.uniform(18, 78, count), rng.uniform(0, 40, count)
    risky = (age < 48) == (mileage > 20)
    noisy = np.where(rng.uniform(size=count) < 0.1, ~risky, risky)
    job = rng.choice(["clerk", "farmer", "pilot"], count)
    return {"age": age, "mileage": mileage, "job": job, "risk": np.where(noisy, "high", "low")}


def main() -> None:
    rng = np.random.default_rng(1)
    known, others = people(rng, ROWS), people(rng, 5000)
    columns = {"bank": ("age", "job", "risk"), "insurer": ("mileage",)}
    federation = Federation(
        [
            Table.from_arrays(party, {name: known[name] for name in columns[party]}, Schema.parse(schema))
            for party, schema in (("bank", BANK), ("insurer", INSURER))
        ],
        budget=(2 * EPSILON, 1e-6),
    )
    release = federation.moments(task="classification", epsilon=EPSILON, delta=1e-6, conditional=True)

    truth = others["risk"] == "high"
    linear = LogisticRegression().fit(release)
    print(f"a linear model:        AUC {roc_auc_score(truth, linear.decision_function(others)):.2f}")
    trees = GradientBoostedTrees(rows=ROWS, rounds=100, rate=0.2).fit(release)
    print(f"GradientBoostedTrees:  AUC {roc_auc_score(truth, trees.decision_function(others)):.2f}")
    print("  asked most about:    " + " and ".join(sorted(list(trees.importance_)[:2])))

    table = release.synthesize(ROWS, seed=1)
    features = ["age", "mileage"]
    own = lightgbm.LGBMClassifier(n_estimators=50, num_leaves=4, max_depth=2, verbosity=-1, n_jobs=1)
    own.fit(np.column_stack([table[name] for name in features]), table["risk"] == "high")
    scores = np.asarray(own.predict_proba(np.column_stack([others[name] for name in features])))[:, 1]
    print(f"LightGBM on a table:   AUC {roc_auc_score(truth, scores):.2f}")
    print(release.guarantees[0])


if __name__ == "__main__":
    main()
