"""The training loop that the samples share, on a task of a few numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import training
from comparison import _times
from tables import MakeTable
from tied_output import small_embedding, tied_output
from torch import Tensor, nn
from training import Batch, Part, Recipe, Task, evaluate, train

import edge_embed


class Numbers(nn.Module):
    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.last = nn.Linear(4, 1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.last(self.table(ids))


class Digits(Task[Numbers]):
    """A task whose row i gives the number i; the scores on validation data are invented."""

    metric = "made up"

    def __init__(self, validation: list[float], higher_is_better: bool = True) -> None:
        self._left = list(validation)
        self.higher_is_better = higher_is_better  # type: ignore[misc]
        self.kept: list[dict[str, Tensor]] = []

    def model(self, table: MakeTable) -> Numbers:
        return Numbers(table(6))

    def batches(self) -> Iterator[Batch]:
        for _ in range(5):
            yield (torch.arange(6),)

    def loss(self, model: Numbers, batch: Batch) -> Tensor:
        assert model.training
        return (model(batch[0]).squeeze(1) - batch[0]).square().mean()

    def score(self, model: Numbers, part: Part) -> float:
        assert not model.training
        assert not torch.is_grad_enabled()
        if part == "test":
            return float((model(torch.arange(6)).squeeze(1) - torch.arange(6)).abs().mean())
        self.kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return self._left.pop(0)

    def example(self) -> Tensor:
        return torch.arange(3)


DENSE = Recipe(lambda rows: nn.Embedding(rows, 4), epochs=3, quick_epochs=1, rate=0.1)


class TestTrain:
    @pytest.mark.parametrize(("higher_is_better", "best"), [(True, 1), (False, 2)])
    def test_best_epoch_is_kept_after_training(self, higher_is_better: bool, best: int) -> None:
        task = Digits([2.0, 3.0, 1.0], higher_is_better)
        model = train(task, DENSE, "dense", epochs=3)
        assert not model.training
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, task.kept[best][name])

    def test_training_reaches_small_error(self) -> None:
        torch.manual_seed(0)
        task = Digits([float(epoch) for epoch in range(20)])
        assert evaluate(task, train(task, DENSE, "dense", epochs=20), "test") < 0.3

    @pytest.mark.parametrize("decay", [True, False])
    def test_rates_fall_to_zero_with_decay(self, decay: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[list[float]] = []

        def note(task: Any, model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> None:
            optimizer.step()
            seen.append([group["lr"] for group in optimizer.param_groups])

        monkeypatch.setattr(training, "step", note)
        recipe = Recipe(lambda rows: nn.Embedding(rows, 4), 2, 1, 0.1, decay=decay)
        train(Digits([0.0, 1.0]), recipe, "dense", epochs=2)
        falling = [1 - at / 10 for at in range(10)] if decay else [1.0] * 10
        np.testing.assert_allclose(seen, [[0.1 * part, Digits.rate * part] for part in falling])

    def test_penalty_of_large_value_empties_transform_of_ant(self) -> None:
        found = {}
        for penalty in (1e-9, 1e3):
            torch.manual_seed(0)
            recipe = Recipe(lambda rows: edge_embed.ANTEmbedding(rows, 4, num_anchors=3), 1, 1, 0.1, penalty)
            model = train(Digits([0.0]), recipe, "ant", epochs=1)
            found[penalty] = int((model.get_parameter("table.transform") > 0).sum())
        assert found[1e3] == 0 < found[1e-9]


class TestTiedOutput:
    @pytest.mark.parametrize("bias", [True, False])
    def test_output_layer_shares_table(self, bias: bool) -> None:
        for table in (nn.Embedding(6, 4), edge_embed.DPQEmbedding(6, 4, num_codes=2, num_groups=2, variant="vq")):
            model = nn.ModuleList([table, tied_output(table, bias)]).eval()
            alone = sum(parameter.numel() for parameter in table.parameters())
            assert sum(parameter.numel() for parameter in model.parameters()) == alone + 6 * bias
            hidden = torch.randn(2, 4)
            shift = next((p for name, p in model[1].named_parameters() if name == "bias"), torch.zeros(6))
            expected = hidden @ table(torch.arange(6)).t() + shift
            torch.testing.assert_close(model[1](hidden), expected)

    def test_dense_table_starts_small_and_without_padding(self) -> None:
        table = small_embedding(500, 4, padding_idx=2)
        assert not table.weight[2].any()
        assert float(table.weight.detach().std()) == pytest.approx(0.1, rel=0.1)
        assert table.weight.requires_grad

    def test_layers_of_other_types_are_refused(self) -> None:
        with pytest.raises(TypeError, match="got a Linear, expected an embedding layer"):
            tied_output(nn.Linear(4, 6), bias=True)


def test_times_are_maxima_over_largest_batches() -> None:
    def measured(subject: str, ids: int, peer: str, ratio: float | None) -> Any:
        return edge_embed_result(subject, ids, "uniform", peer, ratio, None, None, None, "")

    from edge_embed.report.results.validation import LatencyResult as edge_embed_result

    class Report:
        class latency:
            results = (
                measured("table words", 1, "dense Gather", 9.0),
                measured("table words", 4096, "dense Gather", 2.0),
                measured("table items", 4096, "dense Gather", 3.0),
                measured("table items", 4096, "portable body", 8.0),
                measured("table items, logits", 16, "dense MatMul", 0.5),
                measured("table items, logits", 64, "dense MatMul", None),
            )

    assert _times(Report) == {"rows": 3.0, "logits": 0.5}  # type: ignore[arg-type]
