"""Models that look rows up by other operators than an embedding, at both speeds, for any size and any ids."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

import edge_embed

N, D = 90, 8


class Model(nn.Module):
    """A parameter whose rows are looked up by a given operator."""

    def __init__(self, use: Callable[["Model", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.more = nn.Parameter(torch.randn(N, D)), nn.Parameter(torch.randn(5, D))
        self.cube, self.use = nn.Parameter(torch.randn(2, N, D // 2)), use
        self.normed = parametrizations.weight_norm(nn.Embedding(N, D), dim=0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.use(self, ids)


USES: dict[str, Callable[[Model, Tensor], Tensor]] = {
    "index": lambda model, ids: model.words[ids],
    "index_select": lambda model, ids: model.words.index_select(0, ids.flatten()).view(*ids.shape, D),
    "one_hot": lambda model, ids: functional.one_hot(ids, N).float() @ model.words,
    "cat": lambda model, ids: functional.embedding(ids, torch.cat([model.words, model.more])),
    "weight_norm": lambda model, ids: model.normed(ids),
    "index in the middle": lambda model, ids: model.cube[:, ids],
    "tied output layer": lambda model, ids: (model.words * 2)[ids] @ (model.words * 2).t(),
    "equal": lambda model, ids: (ids[..., None] == torch.arange(N)).float() @ model.words,
    "gather": lambda model, ids: model.words.gather(0, ids.flatten()[:, None].expand(-1, D)),
}
QUICK = [("index", torch.int64), ("weight_norm", torch.int64)]
SLOW = [*((use, torch.int64) for use in USES if use not in dict(QUICK)), ("index", torch.int32), ("cat", torch.int32)]
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


def compressed(use: str, dtype: torch.dtype, folder: Path) -> tuple[nn.Module, Path]:
    """Return a model with the numbers of its compressed file up to rounding, and that file as ONNX."""
    model = Model(USES[use]).eval()
    saved = edge_embed.save(model, folder / "model.pt", torch.tensor([[1, 2, 3]], dtype=dtype))
    small = edge_embed.compress(saved, "rows", bits=8, output=folder / "small.pt").model
    edge_embed.export(small, "onnx", folder / "small.onnx")
    return model, folder / "small.onnx"


@pytest.mark.parametrize(("use", "dtype"), CASES)
def test_lookup_gives_rows_of_model_at_both_speeds(use: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model, path = compressed(use, dtype, tmp_path)
    given = [torch.tensor([[5, 0, 89], [3, 3, 7]]), torch.empty(0, 4), torch.tensor([[N - 1]])]
    if use in ("index", "index in the middle"):
        given.append(torch.tensor([[-1, -N, 4, 2]]))
    for portable in (False, True):
        session = edge_embed.create_session(path, portable=portable)
        for ids in (each.to(dtype) for each in given):
            (found,) = session.run(None, {"ids": ids.numpy()})
            wanted = model(ids).detach().numpy()
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, atol=0.03 * (20 if use == "tied output layer" else 1))


def test_id_out_of_range_is_refused_by_runtime(tmp_path: Path) -> None:
    _, path = compressed("index", torch.int64, tmp_path)
    for portable in (False, True):
        session = edge_embed.create_session(path, portable=portable)
        for ids in (N, -N - 1):
            with pytest.raises(Exception, match=r"expected 0 <= id < 90|out of data bounds"):
                session.run(None, {"ids": np.array([[ids]])})


@pytest.mark.slow
def test_file_holds_packed_table_only(tmp_path: Path) -> None:
    _, path = compressed("cat", torch.int64, tmp_path)
    assert path.stat().st_size < 2 * (N + 5) * D + 20_000
    report = edge_embed.validate(tmp_path / "small.pt", path)
    assert report.passed
