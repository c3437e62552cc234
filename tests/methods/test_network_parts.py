"""Local networks and the fusion model: rows apart, gradients clipped on integers, losses without bias."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from colonnade.errors import InputError
from colonnade.methods.network.modules import (
    ConvolutionalNet,
    DenseNet,
    FusionModel,
    LocalNetwork,
    ResNet18,
    from_seed,
    local_network,
    loss_of,
    solve_on_sums,
    targets_of,
)

GRID = 1 << 16
# Networks this small are slower on two threads.
torch.set_num_threads(1)


def network(rows: int = 12, numbers: int = 5, embedding: int = 3, seed: int = 0, module: Any = None) -> Any:
    features = np.random.default_rng(seed).normal(size=(rows, numbers)).astype(np.float32)
    module = module or from_seed(seed, lambda: DenseNet(numbers, embedding, width=8))
    return LocalNetwork("bank", module, features, bound=1, embedding=embedding)


def test_an_embedding_depends_on_its_own_row_only_whatever_the_module() -> None:
    local = network()
    together = local.embed(np.arange(12))
    apart = np.concatenate([local.embed(np.array([row])) for row in range(12)])
    assert np.allclose(together, apart, atol=1e-6) and np.abs(together).max() <= 1
    local = network(module=from_seed(0, Mixing))
    embedded = local.embed(np.arange(12))
    assert np.allclose(embedded, embedded[:1])


class Mixing(nn.Module):
    """A module that looks at the other rows of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, rows: Any) -> Any:
        return self.layer(rows - rows.mean(dim=0, keepdim=True))


def test_batch_normalisation_and_other_inputs_are_refused_in_words() -> None:
    module = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    with pytest.raises(InputError, match="group instead of batch normalisation"):
        network(module=module)
    with pytest.raises(InputError, match="party 'bank': its network cannot embed rows of 5 numbers"):
        network(module=DenseNet(4, 3))


@settings(max_examples=12, deadline=None)
@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e3), st.integers(0, 50), st.sampled_from([1, 2, 64, GRID]))
def test_no_row_adds_more_than_the_grid_whatever_its_gradient_is(
    size: Any, clip: Any, seed: int, grid: Any
) -> None:
    local = network(seed=seed % 3)
    gradient = np.random.default_rng(seed).normal(size=(12, 3)) * size
    for row in range(2):
        added = local.clipped_sum(np.array([row]), gradient[row : row + 1], clip=clip, grid=grid)
        assert sum(int(value) ** 2 for value in added) <= grid**2


def test_integer_sums_are_the_gradient_and_what_is_not_finite_adds_nothing() -> None:
    local = network()
    gradient = np.random.default_rng(1).normal(size=(12, 3)) * 1e-3
    integers = local.clipped_sum(np.arange(12), gradient, clip=1.0, grid=1 << 30)
    assert np.allclose(integers / (1 << 30), local.plain_sum(np.arange(12), gradient), atol=1e-6)
    local = network()
    gradient = np.full((12, 3), np.inf)
    assert not local.clipped_sum(np.arange(12), gradient, clip=1.0, grid=GRID).any()


def test_one_row_moves_the_sum_by_at_most_twice_the_grid() -> None:
    local, other = network(), network()
    other.features[4] = torch.full((5,), 40.0)
    gradient = np.random.default_rng(2).normal(size=(12, 3)) * 100
    sums = [each.clipped_sum(np.arange(12), gradient, clip=0.5, grid=GRID) for each in (local, other)]
    difference = [int(a) - int(b) for a, b in zip(*sums, strict=True)]
    assert 0 < sum(value**2 for value in difference) <= (2 * GRID) ** 2


def test_a_step_moves_against_the_gradient_with_momentum() -> None:
    local = network()
    start = torch.cat([value.reshape(-1).clone() for value in local.weights.parameters.values()])
    direction = np.ones(local.parameters)
    local.weights._momentum = 0.5
    local.step(direction)
    local.step(direction)
    end = torch.cat([value.reshape(-1) for value in local.weights.parameters.values()])
    assert torch.allclose(end, start - 0.01 * (1 + 1.5), atol=1e-6)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_loss_of_an_unbiased_target_is_unbiased(classes: Any) -> None:
    width = classes if classes > 2 else 1
    scores = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    first, second = torch.zeros(5, width), torch.ones(5, width)
    loss = loss_of(classes)
    between = loss(scores, 0.25 * first + 0.75 * second)
    assert torch.allclose(between, 0.25 * loss(scores, first) + 0.75 * loss(scores, second), atol=1e-6)


def test_the_losses_have_the_gradients_of_torchs_own() -> None:
    scores = torch.randn(6, 3, requires_grad=True, generator=torch.Generator().manual_seed(0))
    codes = np.array([0, 1, 2, 0, 1, 2])
    mine = torch.autograd.grad(loss_of(3)(scores, torch.tensor(targets_of(codes, 3))).sum(), scores)[0]
    theirs = torch.autograd.grad(
        nn.functional.cross_entropy(scores, torch.tensor(codes), reduction="sum"), scores
    )[0]
    assert torch.allclose(mine.float(), theirs, atol=1e-6)


def test_a_fusion_models_gradient_is_that_of_each_rows_loss_by_its_sum() -> None:
    labels = targets_of(np.array([0, 1, 1, 0]), 2)
    model = FusionModel(from_seed(0, lambda: nn.Linear(3, 1)), labels, classes=2)
    weight = model.weights.parameters["weight"].clone()
    bias = model.weights.parameters["bias"].clone()
    sums = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    gradient = model.learn(np.arange(4), sums, labels)
    scores = sums @ weight.numpy().T + bias.numpy()
    expected = (1 / (1 + np.exp(-scores)) - (labels + 1) / 2) * weight.numpy()
    assert np.allclose(gradient, expected, atol=1e-5)


def test_solving_takes_the_noise_of_the_sums_out() -> None:
    generator = np.random.default_rng(0)
    exact = generator.normal(size=(20000, 2))
    labels = (exact @ np.array([0.5, -0.2]))[:, None]
    noisy = exact + generator.normal(size=exact.shape) * 2.0
    model = FusionModel(nn.Linear(2, 1), labels, classes=0)
    solve_on_sums(model, noisy, train=np.arange(20000), held_out=np.arange(0), variance=4.0)
    assert np.allclose(model.weights.parameters["weight"].numpy(), [[0.5, -0.2]], atol=0.1)
    solve_on_sums(model, noisy, train=np.arange(20000), held_out=np.arange(0), variance=0.0)
    assert (
        abs(float(model.weights.parameters["weight"][0, 0])) < 0.2
    )  # a control: left in, the noise shrinks it


@pytest.mark.parametrize("make", [ConvolutionalNet, ResNet18])
def test_networks_for_images_embed_rows_apart(make: Any) -> None:
    module = from_seed(
        0, lambda: make((1, 8, 8), 4) if make is ConvolutionalNet else make((1, 8, 8), 4, width=8)
    )
    features = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    local = LocalNetwork("bank", module, features, bound=1, embedding=4)
    apart = np.concatenate([local.embed(np.array([row])) for row in range(3)])
    assert np.allclose(local.embed(np.arange(3)), apart, atol=1e-5)
    assert local.clipped_sum(np.arange(3), np.ones((3, 4)), clip=1.0, grid=64).any()


@pytest.mark.parametrize(
    ("kind", "image", "says"),
    [
        ("convolutional", None, "needs image"),
        ("convolutional", (1, 7, 7), "declares 64 pixels, but image = (1, 7, 7) has 49"),
        ("resnet18", (64, 1, 1), "at least 8 pixels"),
        ("transformer", None, "not one of random, dense, convolutional, resnet18"),
    ],
)
def test_images_of_another_size_are_refused(kind: Any, image: Any, says: Any) -> None:
    with pytest.raises(InputError) as refused:
        local_network(kind, party="bank", numbers=64, attributes=64, embedding=4, image=image, seed=0)
    assert says in str(refused.value)
