# %% [markdown]
# # PBM-VFL: networks on sums of coin tosses
#
# *PBM-VFL: Vertical Federated Learning with Feature and Sample Privacy*, run, attacked and repaired.
#
# **The idea in ten lines.** Several parties hold columns about the same people, here a quadrant each of the same images. Every
# party has a local network that embeds its part of a record into P numbers in [−C, C]; one of them, the label holder, has a
# fusion model on the *sum* of the embeddings. A sum needs no encryption: with pairwise masks that cancel, only the sum
# arrives. To hide a record in the sum, a party sends no embedding $x$ but a *count*: it tosses $b$ coins that show heads with
# probability $1/2 + \beta x/C$. The sum of all parties' counts is Poisson binomial, its mean tells the sum of the embeddings, and
# the coins are the noise. Smaller β, more privacy, less signal. The label holder computes the loss and sends every party the
# gradient at its embedding, and all networks learn. The paper bounds the Rényi divergence of a count by
# $C_0\, b\beta^2\alpha/M$ for $M$ parties and multiplies by the number of times a record is used.
#
# Three things are wrong with that, and one with the masks. Each is run below.

# %%
from collections.abc import Sequence
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray

from colonnade import LogisticRegression, NeuralClassifier, Schema, Table
from colonnade.crypto.masks import MaskStreams, SumRing
from colonnade.data.kinds import NumericColumn
from colonnade.methods.network.network import features_of
from colonnade.noise.poisson_binomial import PoissonBinomialNoise
from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.privacy.guarantee import account, epsilon_text
from colonnade.privacy.paper import LABEL, feature_epsilon
from colonnade.randomness import SystemRandomness
from real_data import four_quadrants
from watching import Watched, draw_flow, seen

houses = four_quadrants()
parties = [table.party for table in houses.tables]
print(houses)

# %% [markdown]
# ## The protocol
#
# One coordinate of one image at a time. What a party has, what it tosses, and what the label holder reads from the sum:

# %%
noise = PoissonBinomialNoise(trials=16, beta=Fraction(1, 4), bound=Fraction(1))
embeddings = np.array([0.8, -0.3, 0.1, 0.6])
counts = noise.draw(embeddings, SystemRandomness())
print("embeddings of four parties ", embeddings, "sum", embeddings.sum().round(2))
print("counts of 16 coins each    ", counts, "sum", counts.sum())
print("read from the sum          ", noise.estimate([counts.sum()], parties=4).round(2))

# %% [markdown]
# The real run, with random public local networks that never learn, so that every image is released once (`frozen`):

# %%
federation = Watched(houses.tables, budget=(60.0, 1e-5), public=True)
network = NeuralClassifier(epsilon=8.0, delta=1e-5, embedding=32).fit(federation)
draw_flow(federation, "Masked counts go to the label holder, nothing goes back")
sender, step, message = next(seen(federation, parties[0], "sum"))
print(f"{parties[0]} received {step!r} from {sender}: masked words, {message.arrays['words'][:12]} ...")

# %% [markdown]
# ## First flaw: masks that do not hide
#
# The paper's Protocol 0 draws masks from [0, b) and adds them over the integers; it calls that perfectly secure. A count $q$ of 0
# and one of $b$ then have different supports. Draw many and look: what lies outside the overlap tells the two apart for certain.
# Colonnade's masks are uniform modulo a power of two, from a key that two parties agreed on.

# %%
B, DRAWS = 16, 20_000
dice = np.random.default_rng(0)


def protocol_0(count: int) -> NDArray[np.int64]:
    """One party's message of two: its count, plus a mask it drew, minus one it was sent."""
    return count + dice.integers(0, B, DRAWS) - dice.integers(0, B, DRAWS)


def modular(count: int) -> NDArray[np.int64]:
    """The same, by the library."""
    ring, places = SumRing(parties=2, largest=B), {"this": 0, "other": 1}
    streams = MaskStreams("this", places, {"other": SystemRandomness().bytes(32)})
    return streams.masked(np.full(DRAWS, count), ring, step="sum").astype(np.int64)


fig, both = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for axes, mask, title in ((both[0], protocol_0, "masks from [0, b)"), (both[1], modular, "masks modulo 2^k")):
    low, high = mask(0), mask(B)
    for values, colour, name in ((low, "0.2", "count 0"), (high, "0.7", f"count {B}")):
        axes.hist(values, bins=np.arange(-17, 66) - 0.5, color=colour, alpha=0.7, label=name)
    certain = np.mean(~np.isin(low, high))
    axes.set(title=title, xlabel="what the receiver sees of one party")
    print(f"{title}: shows that the count was not {B} with certainty in {certain:.0%} of the draws")
both[0].legend()
plt.show()

# %% [markdown]
# ## Second flaw: the constant
#
# The paper leaves $C_0$ open and takes 1 in its experiments. The exact divergence of the Poisson binomial, at the worst vertex,
# asks for 8 to 15. ε for the label holder, about one party's part of one record, P = 16 coordinates, δ = 1e-5, embeddings
# taken as fixed maps:

# %%
DELTA, COORDINATES = 1e-5, 16
print(f"{'M, b, β, epochs':22} {'exact':>8}   {LABEL}, C₀ = 1")
for contributors, trials, beta, epochs in (
    (2, 4, 0.05, 1),
    (4, 4, 0.05, 10),
    (5, 4, 0.1, 10),
    (5, 16, 0.1, 100),
):
    event = Repeated(
        PoissonBinomial(contributors, trials, Fraction(beta).limit_denominator(1000)), COORDINATES * epochs
    )
    printed = feature_epsilon(
        DELTA, contributors=contributors, trials=trials, beta=beta, coordinates=COORDINATES, uses=epochs
    )
    name = f"{contributors}, {trials}, {beta}, {epochs}"
    exact = account(event, DELTA).epsilon
    print(f"{name:22} {epsilon_text(exact):>8}   {epsilon_text(printed.value)}")

# %% [markdown]
# ## Third flaw: a trained network remembers
#
# The proof takes an embedding as a map of its own row. But the local network *learns*, from every row. Change one party's part
# of one image, train again with the same public seeds and no noise at all, and look at the embeddings of all the *other* images:
# they have moved. Each later release of each other image now says something about this one, and no formula counts that.


# %%
def trained(tables: Sequence[Table]) -> NeuralClassifier:
    """As published, without noise, so that two runs differ only by what went in."""
    return NeuralClassifier(regime="paper", mechanism="none", epochs=5, learning_rate=0.05, embedding=8).fit(
        Watched(tables, budget=(1.0, 1e-5), public=True)
    )


def with_one_row_changed(table: Table) -> Table:
    """The same table with the first image's quadrant inverted."""
    (block,) = table.blocks(table.rows)
    arrays = {name: values.copy() for name, values in block.columns.items()}
    for column in table.schema.columns:
        if isinstance(column, NumericColumn):
            arrays[column.name][0] = column.high - arrays[column.name][0]
    return Table.from_arrays(table.party, arrays, Schema("person", table.schema.columns))


whose = houses.tables[1]
one, other = (
    trained(houses.tables),
    trained([houses.tables[0], with_one_row_changed(whose), *houses.tables[2:]]),
)


def embedded(model: NeuralClassifier, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """One party's embeddings by its own trained network."""
    assert model.plan_ is not None
    features = features_of(whose, model.plan_.encoders[whose.party])[rows]
    return model.networks_[whose.party].embed_features(torch.from_numpy(features))


others = np.arange(1, whose.rows)
moved = np.abs(embedded(one, others) - embedded(other, others)).max(axis=1)
print(
    f"{whose.party} changed 1 image; of its {len(others):,} other images {np.mean(moved > 0):.0%} have another embedding,"
)
print(f"by up to {moved.max():.2g} where embeddings lie in [−1, 1]")

# %% [markdown]
# And one more in words: "feature privacy" composes in parallel over rows in the paper. Replacing one party's features replaces its
# value in *every* row, so losses add up over rows; what is bounded is one party's value in one row.
#
# ## The sound form
#
# Two regimes are proved from end to end: `frozen`, where local networks are public and never learn, and `private-local`, where
# they learn by clipped, noised steps whose cost is added. Every guarantee names its unit: one party's part of a record, a whole
# record, or a whole set of columns, for which this mechanism offers nothing and says so.

# %%
print(network.statement_)
for guarantee in network.privacy_:
    if guarantee.observer.name == "server":
        print(
            f"  label holder, {guarantee.unit.name}: ε = {epsilon_text(guarantee.epsilon)} (δ = {guarantee.delta:g})"
        )

# %%
EPSILONS = (4.0, 8.0, 16.0)
right: dict[str, list[float]] = {
    "networks, ε for one party's part of an image": [],
    "one matrix, ε for whole images": [],
}
for epsilon in EPSILONS:
    frozen = NeuralClassifier(epsilon=epsilon, delta=1e-5, embedding=32)
    matrix = LogisticRegression(epsilon=epsilon, delta=1e-5)
    pair: tuple[NeuralClassifier | LogisticRegression, ...] = (frozen, matrix)
    for scores, model in zip(right.values(), pair, strict=True):
        fitted = model.fit(Watched(houses.tables, budget=(1e4, 1e-4), public=True))
        scores.append(fitted.score(houses.rows, houses.labels))
fig, axes = plt.subplots(figsize=(6, 3))
for (name, scores), mark in zip(right.items(), "o^", strict=True):
    axes.semilogx(EPSILONS, scores, f"k{mark}-", label=name, base=2)
    print(f"{name:46} " + "  ".join(f"ε = {e:g}: {s:.3f}" for e, s in zip(EPSILONS, scores, strict=True)))
axes.set(xlabel="ε, label holder or server", ylabel="digits right, held out", ylim=(0, 1))
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# A sum of embeddings is one noisy release *per record*, a matrix of moments one noisy release over *all* records. At the same ε
# the matrix wins, and protects whole records. Networks are for parts that many parties hide, and for comparison with the
# paper. See [docs/networks.md](../docs/networks.md), [the Poisson binomial](../docs/proofs/poisson-binomial.md) and
# [embeddings](../docs/proofs/embeddings.md).
