"""Models with a dense `torch.nn.EmbeddingBag` beside a compressed table."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed

_IDS = torch.tensor([3, 0, 5, 5, 19, 0, 0, 7])
_OFFSETS = torch.tensor([0, 3, 3, 5, 7])  # one bag is empty, one holds padding alone


class _Model(nn.Module):
    def __init__(self, weighted: bool = False, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = edge_embed.DPQEmbedding(20, 4, num_codes=4, num_groups=2)
        self.bag = nn.EmbeddingBag(20, 6, **options)  # type: ignore[arg-type]
        self.weighted = weighted

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        bags = self.bag(ids, offsets, weights if self.weighted else None)
        return self.words(ids), bags + 0 * weights.sum()


def _export(model: nn.Module, path: Path, offsets: Tensor = _OFFSETS) -> tuple[Tensor, Tensor, Tensor]:
    example = (_IDS, offsets, torch.linspace(-1, 1, len(_IDS)))
    edge_embed.export(model.eval(), "onnx", path, example)
    return example


@pytest.mark.parametrize(("mode", "padding_idx"), [("sum", None), ("mean", 0), ("max", -1)])
def test_dense_bag_export_gives_bags_of_torch(tmp_path: Path, mode: str, padding_idx: int | None) -> None:
    model = _Model(mode=mode, padding_idx=padding_idx)
    _export(model, tmp_path / "m.onnx")
    session = edge_embed.create_session(tmp_path / "m.onnx")
    for ids, offsets in ((_IDS, _OFFSETS), (torch.tensor([19, 1]), torch.tensor([0, 2])), (_IDS[:0], _OFFSETS[:1])):
        feeds = {"ids": ids, "offsets": offsets, "weights": torch.ones(len(ids))}
        bags = session.run(None, {name: value.numpy() for name, value in feeds.items()})[1]
        assert np.allclose(bags, model(**feeds)[1].detach(), atol=1e-6)
    for wrong in ([1, 3], [0, 5, 3], [0, 9]) if mode == "sum" else ():
        feeds = {"ids": _IDS.numpy(), "offsets": np.array(wrong), "weights": np.ones(8, np.float32)}
        with pytest.raises(Exception, match="out of"):
            session.run(None, feeds)


def test_dense_bag_export_with_weights_and_last_offset_gives_bags_of_torch(tmp_path: Path) -> None:
    model = _Model(weighted=True, mode="sum", include_last_offset=True)
    example = _export(model, tmp_path / "m.onnx", torch.tensor([0, 3, 3, 8]))
    feeds = dict(zip(("ids", "offsets", "weights"), (value.numpy() for value in example), strict=True))
    bags = edge_embed.create_session(tmp_path / "m.onnx").run(None, feeds)[1]
    assert np.allclose(bags, model(*example)[1].detach(), atol=1e-6)


class _Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.with_mean, self.max = _Model(mode="mean"), nn.EmbeddingBag(20, 6, mode="max")

    def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return *self.with_mean(ids, offsets, weights), self.max(ids, offsets)


@pytest.mark.slow
def test_dense_bag_export_gives_same_bytes_in_each_process(tmp_path: Path) -> None:
    edge_embed.save(_Bags().eval(), tmp_path / "m.pt", (_IDS, _OFFSETS, torch.ones(8)))
    written = set()
    for seed in ("1", "2"):
        main = [sys.executable, "-c", "from edge_embed.cli import main; main()"]
        command = [*main, "export", str(tmp_path / "m.pt"), "--target", "onnx", "--force", "--no-open", "-q"]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "deduplication" not in done.stderr
        written.add((tmp_path / "m.onnx").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(("method", "kind"), [("dpq", torch.float32), ("tt", torch.float64)])
def test_weighted_bag_export_in_float16_takes_weights_of_model_type(
    tmp_path: Path, method: str, kind: torch.dtype
) -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(200, 16, mode="sum", dtype=kind)

        def forward(self, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
            return self.bag(ids, offsets, weights).float()

    example = {"ids": _IDS, "offsets": _OFFSETS, "weights": torch.linspace(-1, 1, 8, dtype=kind)}
    edge_embed.save(Weighted().eval(), tmp_path / "m.pt", example)
    sizes = {"num_codes": 16, "num_groups": 8} if method == "dpq" else {"rank": 4}
    edge_embed.compress(tmp_path / "m.pt", method, value_type="float16", output=tmp_path / "s.pt", **sizes)
    edge_embed.export(tmp_path / "s.pt", "onnx", tmp_path / "s.onnx")
    feeds = {name: value.numpy() for name, value in example.items()}
    (expected,) = edge_embed.workflow.load(tmp_path / "s.pt").run(*example.values())
    assert expected.any()
    for portable in (False, True):
        session = edge_embed.create_session(tmp_path / "s.onnx", portable=portable)
        types = {given.name: given.type for given in session.get_inputs()}
        assert types["weights"] == {torch.float32: "tensor(float)", torch.float64: "tensor(double)"}[kind]
        assert np.allclose(session.run(None, feeds)[0], expected.numpy(), atol=1e-2)
