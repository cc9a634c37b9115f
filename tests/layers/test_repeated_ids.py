"""An id that occurs several times in a step is computed once and counts with every occurrence."""

import pytest
import torch

import edge_embed

IDS = torch.tensor([[3, 1, 3, 0], [1, 3, 7, 0], [9, 9, 3, 1]])
LAYERS = {
    "dpq sx": lambda: edge_embed.DPQEmbedding(12, 8, 4, 4, padding_idx=0, dtype=torch.float64),
    "dpq sx, per group": lambda: edge_embed.DPQEmbedding(12, 8, 4, 4, distance_norm="per_group", dtype=torch.float64),
    "dpq vq": lambda: edge_embed.DPQEmbedding(12, 8, 4, 4, variant="vq", padding_idx=0, dtype=torch.float64),
    "dpq vq, averages": lambda: edge_embed.DPQEmbedding(
        12, 8, 4, 4, variant="vq", padding_idx=0, ema_decay=0.9, dtype=torch.float64
    ),
    "ant": lambda: edge_embed.ANTEmbedding(12, 8, num_anchors=5, padding_idx=0, dtype=torch.float64),
    "tt": lambda: edge_embed.TTEmbedding(12, 8, rank=3, padding_idx=0, dtype=torch.float64),
    "tr": lambda: edge_embed.TREmbedding(12, 8, rank=2, padding_idx=0, dtype=torch.float64),
}


def trained(name: str, each: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Return rows, gradients and buffers of two steps; ``each`` computes every id separately, as compiling does."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    with monkeypatch.context() as patch:
        if each:
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
        for _ in range(2):
            rows = layer(IDS)
            (rows * torch.arange(rows.numel()).reshape(rows.shape)).sum().backward()
    gradients = {f"gradient of {key}": parameter.grad for key, parameter in layer.named_parameters()}
    return {"rows": rows.detach(), **gradients, **dict(layer.named_buffers())}


@pytest.mark.parametrize("name", LAYERS)
def test_step_matches_every_id_on_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once, each = (trained(name, each, monkeypatch) for each in (False, True))
    assert once.keys() == each.keys()
    for key, tensor in each.items():
        if tensor is not None:
            torch.testing.assert_close(
                once[key], tensor, rtol=1e-12, atol=1e-12, msg=lambda text, key=key: f"{key}: {text}"
            )


@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_repeated_ids_are_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, seen = LAYERS[name](), []
    rows_of = layer.training_rows

    def watched(own: torch.Tensor, counts: torch.Tensor, **rest: object) -> torch.Tensor:
        seen.append((own, counts))
        return rows_of(own, counts, **rest)

    monkeypatch.setattr(layer, "training_rows", watched)
    layer(IDS)
    ((own, counts),) = seen
    once = torch.tensor([0, 1, 3, 7, 9])
    assert torch.equal(own, once if layer.own_rows is None else layer.own_rows[once])
    assert counts.tolist() == [2 * (layer.padding_idx is None), 3, 4, 1, 2]
