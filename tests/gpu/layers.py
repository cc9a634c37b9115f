"""Layers of all methods in training and at inference: the device beside the CPU."""

import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import edge_embed
from edge_embed import workflow
from edge_embed.layers.full_softmax import full_softmax_loss
from edge_embed.layers.regularization import regularization_loss
from edge_embed.layers.sampled_softmax import draw, log_uniform, sampled_softmax_loss
from edge_embed.layers.table import CompressedEmbedding
from tests.every_layer import every_layer
from tests.gpu.table import Table, outcome, verdict

ROWS, WIDTH, BATCH = 2000, 32, 64
_BOUND = 1e-4  # largest error over the largest number; TF32 would be near 1e-3
_LOSS_BOUND = 1e-3
_NEAR_TIES = 2e-3  # share of rows that may have another code: float32 distances that are equal but for rounding

LAYERS = every_layer(ROWS, WIDTH, num_codes=32, num_groups=8, num_anchors=40, rank=16)


def parity(device: str) -> Table:
    """Compare lookups, logits and top-k in three states, and the gradients of a step."""
    columns = ["layer", "training", "gradients", "eval", "frozen", "place of all tensors"]
    return Table(f"Layers: largest relative error, {device} beside cpu (float32)", columns, [
        [name, *_compared(make, device)] for name, make in LAYERS.items()
    ])  # fmt: skip


def _compared(make: Callable[[], CompressedEmbedding], device: str) -> list[str]:
    torch.manual_seed(0)
    here = make()
    there = deepcopy(here).to(device)
    cells = []
    for change in ("train", "eval", "freeze"):
        getattr(here, change)()
        getattr(there, change)()
        results = outcome(lambda: _error(_uses(here, "cpu"), _uses(there, device)))
        cells.append(results)
        if change == "train":
            cells.append(outcome(lambda: _error(_gradients(here), _gradients(there))))
    places = {str(each.device.type) for each in (*there.parameters(), *there.buffers())}
    return [*cells, verdict(places == {device})]


def _uses(layer: CompressedEmbedding, device: str) -> dict[str, Tensor]:
    ids = (torch.arange(4 * BATCH) * 37 % ROWS).reshape(BATCH, 4).to(device)
    hidden = torch.linspace(-1, 1, 16 * WIDTH).reshape(16, WIDTH).sin().to(device)
    layer.zero_grad()
    found = {"rows": layer(ids), "logits": layer.logits(hidden), "top": layer.topk(hidden, 5).values}
    if layer.learns:
        (sum(each.square().mean() for each in found.values()) + regularization_loss(layer)).backward()
    return {name: each.detach().cpu() for name, each in found.items()}


def _gradients(layer: CompressedEmbedding) -> dict[str, Tensor]:
    return {name: one.grad.cpu() for name, one in layer.named_parameters() if one.grad is not None}


def _error(expected: dict[str, Tensor], found: dict[str, Tensor]) -> str:
    """Return the largest error over the largest number, without the few rows whose code is a near tie."""
    worst, ties = 0.0, 0.0
    for name, one in expected.items():
        errors = (found[name] - one).abs() / one.abs().max().clamp(min=1e-30)
        over = errors > _BOUND
        ties = max(ties, float(over.float().mean()))
        worst = max(worst, float(errors.masked_fill(over, 0.0).max()))
    shown = f"{worst:.1e}" + (f", {ties:.2%} of numbers beyond {_BOUND}" if ties else "")
    return shown if ties <= _NEAR_TIES else f"FAILED: {shown}"


def training(device: str) -> Table:
    """Train each layer for some steps on both devices, and with bfloat16 autocast on the device."""
    columns = ["layer", "loss on cpu", f"loss on {device}", "with autocast to bfloat16"]
    return Table(
        "Training: loss after 10 steps", columns, [[name, *_losses(make, device)] for name, make in LAYERS.items()]
    )


def _losses(make: Callable[[], CompressedEmbedding], device: str) -> list[str]:
    def loss_on(at: str, autocast: torch.dtype | None = None) -> str:
        return outcome(lambda: f"{_trained(make, at, autocast):.5f}")

    here, there, half = loss_on("cpu"), loss_on(device), loss_on(device, torch.bfloat16)
    failed = here.startswith("FAILED") or there.startswith("FAILED")
    is_near = failed or abs(float(here) - float(there)) < _LOSS_BOUND
    return [here, there if is_near else f"FAILED: {there}", half]


def _trained(make: Callable[[], CompressedEmbedding], device: str, autocast: torch.dtype | None = None) -> float:
    torch.manual_seed(0)
    layer = make().to(device)
    optimizer: torch.optim.Optimizer = edge_embed.Yogi(layer.parameters(), lr=0.05)
    if isinstance(layer, edge_embed.ANTEmbedding):
        optimizer = edge_embed.ProximalOptimizer(optimizer, layer, 1e-4)
    output = edge_embed.TiedOutput(layer, bias=True)
    ids = (torch.arange(3 * BATCH) * 37 % 500).reshape(BATCH, 3).to(device)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast(device, autocast, enabled=autocast is not None):
            rows = layer(ids) if isinstance(layer, edge_embed.DPQEmbeddingBag) else layer(ids).mean(1)
            loss = functional.cross_entropy(output(rows), ids[:, 0]) + regularization_loss(layer)
        loss.backward()
        optimizer.step()
    assert loss.isfinite(), f"the loss is {loss}"
    return float(loss.detach())


class Tagger(nn.Module):
    """Rows of DPQ, then a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(700, 24, num_codes=16, num_groups=6, padding_idx=0)
        self.encoder = nn.GRU(24, 8, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        """Return states [B, T, 8]."""
        return self.encoder(self.words(ids))[0]


class Dense(nn.Module):
    """A dense table of low rank, to compress."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(4000, 32)
        self.words.weight = nn.Parameter(torch.randn(4000, 6) @ torch.randn(6, 32))

    def forward(self, ids: Tensor) -> Tensor:
        """Return rows [B, T, 32]."""
        return self.words(ids)


def uses_of_a_device(device: str) -> Table:
    """Save, export, fit and compute losses with tensors on the device."""
    checks = {
        "save on the device, load and export on the CPU": _saved,
        "freeze on the device, load the checkpoint on the CPU": _checkpoint,
        "compress(model on the device, rows)": lambda at: _compressed(at, "rows", bits=4),
        "compress(model on the device, tt)": lambda at: _compressed(at, "tt", rank=6),
        "sampled_softmax_loss, chances on the device": _sampled,
        "full_softmax_loss": _full,
        "AnchorSearch": _searched,
    }
    rows = [[name, outcome(lambda check=check: check(device))] for name, check in checks.items()]
    return Table("Other uses of a device", ["use", "outcome"], rows)


def _saved(device: str) -> str:
    torch.manual_seed(0)
    model, ids = Tagger().to(device).eval(), torch.tensor([[3, 1, 699], [5, 0, 6]], device=device)
    expected = model(ids).detach().cpu()
    with tempfile.TemporaryDirectory() as folder:
        path = edge_embed.save(model, Path(folder) / "model.pt", (ids,))
        program = workflow.load(path)
        (found,) = program.run(ids.cpu())
        workflow.export(program, "onnx", Path(folder) / "model.onnx")
    error = float((found.detach() - expected).abs().max())
    assert error < 1e-3, f"the loaded model differs by {error:.1e}"  # cuDNN rounds to TF32 outside of validation
    return f"largest difference {error:.1e}"


def _checkpoint(device: str) -> str:
    for make in LAYERS.values():
        layer, ids = make().to(device).freeze(), torch.arange(9).reshape(3, 3)
        loaded = make()
        state = {name: each.cpu() for name, each in layer.state_dict().items()}
        loaded.load_state_dict(state)
        torch.testing.assert_close(loaded(ids), layer(ids.to(device)).cpu())
    return f"{len(LAYERS)} layers have equal rows"


def _compressed(device: str, method: str, **sizes: int) -> str:
    torch.manual_seed(0)
    here = Dense()
    there = deepcopy(here).to(device)
    ids = torch.arange(4000).reshape(40, 100)
    expected = edge_embed.compress(here, method, **sizes).model(ids)
    compressed = edge_embed.compress(there, method, **sizes).model
    places = {each.device.type for each in (*compressed.parameters(), *compressed.buffers())}
    error = float((compressed(ids.to(device)).cpu() - expected).abs().max() / expected.abs().max())
    assert places == {device}, f"its tensors are on {places}"
    assert error < 1e-4, f"its rows differ by {error:.1e}"
    return f"on {device}, rows as on cpu within {error:.1e}"


def _sampled(device: str) -> str:
    losses = []
    for at in ("cpu", device):
        torch.manual_seed(0)
        chances = log_uniform(ROWS).to(at)
        output = edge_embed.TiedOutput(LAYERS["TT"]().to(at))
        hidden, targets = torch.ones(3, WIDTH, device=at), torch.tensor([1, -100, 3], device=at)
        losses.append(float(sampled_softmax_loss(output, hidden, targets, draw(chances, 50), chances).detach()))
    assert abs(losses[0] - losses[1]) < 1e-3, f"losses {losses}"
    return f"{losses[1]:.5f}, on cpu {losses[0]:.5f}"


def _full(device: str) -> str:
    sums = []
    for at in ("cpu", device):
        torch.manual_seed(0)
        layer = LAYERS["ANT"]().to(at)
        hidden, targets = torch.ones(3, WIDTH, device=at), torch.tensor([1, -100, 3], device=at)
        full_softmax_loss(edge_embed.TiedOutput(layer), hidden, targets, 1e-4).backward()
        sums.append(float(layer.transform.grad.to_dense().abs().sum()))
    assert abs(sums[0] - sums[1]) < 1e-4 * sums[0], f"sums of gradients {sums}"
    return "gradient as on cpu"


def _searched(device: str) -> str:
    layer = edge_embed.ANTEmbedding(500, 16, 5).to(device)
    optimizer = edge_embed.ProximalOptimizer(edge_embed.Yogi(layer.parameters()), layer, 1e-4)
    search = edge_embed.AnchorSearch(optimizer, 1e-3)
    ids = torch.arange(100, device=device)
    for _ in range(6):
        optimizer.zero_grad()
        loss = (layer(ids) - 1).square().mean()
        loss.backward()
        optimizer.step()
        search.step(loss)
    return f"{layer.num_anchors} anchors"
