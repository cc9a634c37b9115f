"""Layers, losses and optimisers on another device than the CPU, without a GPU: `tests.other_device`, and ``meta``."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import edge_embed
from edge_embed.layers.ant_terms import overlap
from edge_embed.layers.pairs import entries
from edge_embed.layers.regularization import regularization_loss
from edge_embed.layers.sampled_softmax import draw, log_uniform, sampled_softmax_loss
from edge_embed.layers.table import CompressedEmbedding
from tests import other_device
from tests.every_layer import every_layer
from tests.forked import run_processes

ROWS, WIDTH = 50, 12
IDS = torch.tensor([[3, 1, 0, 49], [3, 3, 2, 7]])
LAYERS = every_layer(ROWS, WIDTH, num_codes=5, num_groups=3, num_anchors=7, rank=4)


def uses(layer: CompressedEmbedding, device: str) -> dict[str, Tensor]:
    """Return the results of each use of a layer, and in training its gradients."""
    ids = IDS.to(device)
    hidden = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH).to(device)
    output = edge_embed.TiedOutput(layer, bias=True)
    found = {"rows": layer(ids), "logits": output(hidden), "top": output.topk(hidden, 3).values}
    if layer.learns:
        loss = torch.stack([each.square().sum() for each in found.values()]).sum() + regularization_loss(layer)
        loss.backward()
        found |= {f"gradient of {name}": parameter.grad for name, parameter in layer.named_parameters()}
    return found


def compare_all_uses(rank: int) -> None:
    other_device.register()
    for name in LAYERS:
        compare_uses(name)


def compare_uses(name: str) -> None:
    torch.manual_seed(0)
    here = LAYERS[name]()
    there = deepcopy(here).to("other")
    for change in ("train", "eval", "freeze"):
        getattr(here, change)()
        getattr(there, change)()
        other_device.syncs.clear()
        expected, found = uses(here, "cpu"), uses(there, "other")
        # Frozen rows of ANT have a number of terms that the host asks for.
        if change != "freeze" or not name.startswith("ANT"):
            assert not other_device.syncs, f"{name} {change}: a GPU would wait: {dict(other_device.syncs)}"
        for use, result in found.items():
            torch.testing.assert_close(
                other_device.cpu(result), expected[use], msg=lambda text, at=(name, change, use): f"{at}: {text}"
            )


def test_layers_on_another_device_give_numbers_of_cpu_without_syncs() -> None:
    run_processes(compare_all_uses, (), count=1)


def steps(layer: edge_embed.ANTEmbedding, optimizer: edge_embed.ProximalOptimizer, device: str) -> Tensor:
    """Return the loss of the last of three steps."""
    ids = IDS.to(device)
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(edge_embed.TiedOutput(layer)(layer(ids).mean(1)), ids[:, 0])
        loss.backward()
        optimizer.step()
    return loss.detach()


def compare_training(rank: int) -> None:
    other_device.register()
    compare_sparse_training()
    compare_sampled()
    train_in_bfloat16_and_freeze()


def compare_sparse_training() -> None:
    losses = []
    for device in ("cpu", "other"):
        torch.manual_seed(0)
        layer = edge_embed.ANTEmbedding(ROWS, WIDTH, 5).to(device)
        optimizer = edge_embed.ProximalOptimizer(edge_embed.Yogi(layer.parameters()), layer, 1e-3)
        search = edge_embed.AnchorSearch(optimizer, 0.01)
        other_device.syncs.clear()
        losses += [steps(layer, optimizer, device)]
        assert not other_device.syncs
        for _ in range(4):
            search.step(losses[-1])
        free = entries(torch.tensor([[1, 2], [3, 4]]), torch.tensor([3, 4, 5, 6, 7]))
        some = edge_embed.ProximalOptimizer(optimizer.optimizer, layer, 1e-3, unpenalized={layer: free})
        losses += [steps(layer, some, device), overlap(layer, free.flip(0)).detach()]
    for expected, found in zip(losses[:3], losses[3:], strict=True):
        torch.testing.assert_close(other_device.cpu(found), expected)


def compare_sampled() -> None:
    chances, hidden, targets = log_uniform(ROWS), torch.ones(3, WIDTH), torch.tensor([1, -100, 3])
    found = []
    for device in ("cpu", "other"):
        torch.manual_seed(0)
        output = edge_embed.TiedOutput(edge_embed.TTEmbedding(ROWS, WIDTH, rank=3).to(device))
        sampled = draw(chances.to(device), 7)
        found += [sampled, sampled_softmax_loss(output, hidden.to(device), targets.to(device), sampled, chances)]
    for expected, result in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(other_device.cpu(result), expected)


def train_in_bfloat16_and_freeze() -> None:
    for layer in (make() for make in LAYERS.values()):
        with torch.autocast("other", torch.bfloat16):
            uses(layer.to("other"), "other")
        packed = layer.to_packed()
        assert type(layer.freeze()).from_packed(packed).to("other")(IDS.to("other")).device.type == "other"


def test_training_on_another_device_gives_losses_of_cpu_and_freezes() -> None:
    run_processes(compare_training, (), count=1)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_on_meta_device_keeps_all_results_there(name: str) -> None:
    found = uses(LAYERS[name]().to("meta"), "meta")
    assert {each.device.type for each in found.values() if each is not None} == {"meta"}
