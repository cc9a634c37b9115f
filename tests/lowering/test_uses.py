"""Uses of one table: rows, bags, logits and top-k use the same packed tensors, tied or not."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import CALLS, lower_program
from edge_embed.packed.bag import bag
from edge_embed.packed.logits import logits

N, D = 30, 12
IDS = torch.tensor([[7, 0, 19], [3, 3, 11]])


def make(method: str, kind: str = "Embedding", **options):
    sizes = {"DPQ": {"num_codes": 5, "num_groups": 3}, "ANT": {"num_anchors": 7}, "TT": {"rank": 3}}
    return getattr(edge_embed, method + kind)(N, D, **sizes[method], **options)


METHODS = ("DPQ", "ANT", "TT")


class Language(nn.Module):
    """A language model, optionally with the mean of the words."""

    def __init__(self, words: nn.Module, output: nn.Module, bags: nn.Module | None = None) -> None:
        super().__init__()
        self.words, self.output, self.bags = words, output, bags

    def forward(self, ids):
        hidden = torch.tanh(self.words(ids))
        if self.bags is not None:
            hidden = hidden + self.bags(ids).unsqueeze(1)
        return self.output(hidden)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("frozen", [False, True])
def test_tied_table_is_packed_once(capture, method, frozen):
    words = make(method)
    if frozen:
        words.freeze()
    model = Language(words, edge_embed.TiedOutput(words, bias=torch.randn(N)))
    program = capture(model)
    lowered = lower_program(program)
    assert list(lowered.tables) == ["words"]
    (report,) = lowered.reports
    assert (report.method, report.lowered, report.uses) == (method.lower(), True, 2)
    weights = dict(lowered.program.module.named_buffers())
    assert {name for name in weights if not name.endswith("bias")} == {
        f"words.{tensor}" for tensor in lowered.tables["words"].tensors()
    }
    expected = model.eval()(IDS)
    for run in (program.run, lowered.program.run):
        torch.testing.assert_close(run(IDS)[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_untied_output_layer_keeps_its_own_table(capture, method):
    model = Language(make(method), edge_embed.TiedOutput(make(method)))
    lowered = lower_program(capture(model))
    assert list(lowered.tables) == ["words", "output.embedding"]
    torch.testing.assert_close(lowered.program.run(IDS)[0], model.eval()(IDS), atol=1e-5, rtol=1e-5)


def test_equal_weights_of_two_layers_are_not_tied(capture):
    """Tied layers share one tensor; layers with equal tensors could be trained further independently."""
    words, other = make("TT"), make("TT")
    other.load_state_dict(words.state_dict())
    lowered = lower_program(capture(Language(words, edge_embed.TiedOutput(other))))
    assert list(lowered.tables) == ["words", "output.embedding"]


@pytest.mark.parametrize("method", METHODS)
def test_table_with_all_uses_is_packed_once(capture, method):
    bags = make(method, "EmbeddingBag", padding_idx=3, mode="mean")

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags, self.output = bags, edge_embed.TiedOutput(bags)

        def forward(self, ids):
            return self.output(self.bags(ids)), self.bags(ids), self.output.topk(self.bags(ids), 4)

    lowered = lower_program(capture(Rows()))
    (table,) = lowered.tables.values()
    found = [CALLS[node.target].use for node in lowered.program.module.graph.nodes if node.target in CALLS]
    assert sorted(found) == ["bag", "bag", "bag", "logits", "topk"]
    scores, means, values, best = lowered.program.run(IDS)
    expected, _ = bag(table, IDS.reshape(-1).numpy(), np.array([0, 3, 6]), "mean")
    np.testing.assert_allclose(means.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(scores.numpy(), logits(table, expected.astype(np.float32))[0], atol=1e-5)
    first = torch.sort(scores, dim=-1, descending=True, stable=True)
    assert torch.equal(values, first.values[:, :4])
    assert torch.equal(best, first.indices[:, :4])


class Best(nn.Module):
    """A model of the most likely next words."""

    def __init__(self, words: nn.Module, k: int, bias: bool = False) -> None:
        super().__init__()
        self.words, self.k = words, k
        self.output = edge_embed.TiedOutput(words, bias=bias)

    def forward(self, ids):
        return self.output.topk(torch.tanh(self.words(ids)), self.k or ids.shape[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_topk_of_tied_table_is_lowered(capture, method, frozen, bias):
    words = make(method)
    model = Best(words.freeze() if frozen else words, 5, bias)
    program = capture(model)
    assert program.output_names == ("values", "ids_output")  # the name ids belongs to an input
    lowered = lower_program(program)
    (report,) = lowered.reports
    assert (report.name, report.lowered, report.uses) == ("words", True, 2)
    expected = model.eval()(IDS)
    for run in (program.run, lowered.program.run):
        values, ids = run(IDS)
        torch.testing.assert_close(values, expected.values, atol=1e-5, rtol=1e-5)
        assert ids.shape == (2, 3, 5)


def test_topk_needs_constant_number_within_rows(capture):
    """Refuses a dynamic size at capture, and a number that was changed in the file."""
    with pytest.raises(BadInputError, match=r"k: got .*, expected a constant integer from 1 to 30, the rows of the"):
        capture(Best(make("TT"), 0))
    for wrong in (0, -1, N + 1, 10**9):
        program = capture(Best(make("TT"), 5))
        (call,) = (node for node in program.module.graph.nodes if getattr(CALLS.get(node.target), "use", "") == "topk")
        call.update_arg(2, wrong)
        with pytest.raises(BadInputError, match=f"k: got {wrong}, expected a constant integer from 1 to 30, the rows"):
            lower_program(program)


def test_bags_with_offsets_and_weights_are_lowered(capture):
    class Offsets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = make("ANT", "EmbeddingBag", mode="sum")

        def forward(self, ids, offsets, weights):
            return self.words(ids, offsets, weights)

    model = Offsets()
    example = (torch.tensor([4, 5, 6, 7]), torch.tensor([0, 1]), torch.rand(4))
    lowered = lower_program(capture(model, example))
    other = (torch.tensor([1, 29, 3]), torch.tensor([0, 0, 2, 3]), torch.rand(3))
    torch.testing.assert_close(lowered.program.run(*other)[0], model.eval()(*other), atol=1e-6, rtol=1e-5)


def test_tables_of_all_methods_and_dense_tables_are_reported(capture):
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = make("DPQ"), make("ANT"), make("TT"), nn.Embedding(N, D)
            self.e = nn.EmbeddingBag(N, D)

        def forward(self, ids):
            return self.a(ids) + self.b(ids) + self.c(ids) + self.d(ids) + self.a(ids) + self.e(ids).unsqueeze(1)

    lowered = lower_program(capture(Mixed()))
    found = {(report.name, report.method, report.lowered, report.uses) for report in lowered.reports}
    assert found == {
        ("a", "dpq", True, 2),
        ("b", "ant", True, 1),
        ("c", "tt", True, 1),
        ("d", "dense", False, 1),
        ("e", "dense", False, 1),
    }


@pytest.mark.parametrize("method", METHODS)
def test_float16_table_in_float32_model_is_lowered(capture, method):
    words = make(method)
    expected = words.eval()(IDS)
    words.freeze(value_type="float16")
    assert words(IDS).dtype == torch.float32
    lowered = lower_program(capture(Language(words, edge_embed.TiedOutput(words))))
    assert lowered.tables["words"].shape.value_type == "float16"
    rows = torch.from_numpy(lowered.tables["words"].rows(IDS.numpy()))
    assert rows.dtype == torch.float16
    torch.testing.assert_close(rows.float(), expected, atol=2e-3, rtol=2e-3)
    assert lowered.program.run(IDS)[0].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_int8_table_gives_rows_in_type_of_model(capture, dtype):
    """The packed rows are float32; the program rounds them to the type of the model."""

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = make("DPQ").to(dtype).freeze(value_type="int8")

        def forward(self, ids):
            return self.words(ids)

    model = Rows().eval()
    lowered = lower_program(capture(model))
    packed = lowered.tables["words"]
    assert (packed.value_type, packed.row_type) == ("int8", "float32")
    (rows,) = lowered.program.run(IDS)
    assert rows.dtype == dtype
    assert torch.equal(rows, model(IDS))
    assert torch.equal(rows, torch.from_numpy(packed.rows(IDS.numpy())).to(dtype))


def test_progress_counts_rows_of_each_table(capture):
    seen: dict[str, int] = {}
    model = Language(make("ANT"), edge_embed.TiedOutput(make("TT")), make("DPQ", "EmbeddingBag"))
    lower_program(capture(model), lambda name, done, total: seen.update({name: done - total}))
    assert seen == {"words": 0, "output.embedding": 0, "bags": 0}
