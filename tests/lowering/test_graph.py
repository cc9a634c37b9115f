"""Lowering of graphs: it finds every compressed table, reports the tables that it leaves, and changes no output."""

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.ops import dpq

IDS = torch.tensor([[7, 0, 19], [3, 3, 11]])


class Stack(nn.Module):
    """A model that sums the outputs of its parts for the same ids."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return sum(part(ids) for part in self.parts.values())


class Encoder(nn.Module):
    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids)


def table(num_codes: int = 5, variant: str = "sx", **options: object) -> DPQEmbedding:
    layer = DPQEmbedding(20, 12, num_codes, 3, variant, init_scale=1.0, **options)
    with torch.no_grad():
        layer(torch.arange(20))
    return layer


def calls(graph: torch.fx.Graph, operator: object) -> int:
    return sum(node.target is operator for node in graph.nodes)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("options", [{}, {"variant": "vq"}, {"share_subspaces": True}, {"padding_idx": 3},
                                     {"distance_norm": False}, {"num_codes": 300}])  # fmt: skip
def test_lowered_rows_equal_rows_of_training_form(capture, frozen, options):
    layer = table(**options)
    if frozen:
        layer.freeze()
    program = capture(layer)
    lowered = lower_program(program)
    assert list(lowered.tables) == ["embedding"]
    expected = layer.eval()(IDS).detach()
    for run in (program.run, lowered.program.run):
        assert run(IDS)[0].numpy().tobytes() == expected.numpy().tobytes()
    assert lowered.tables["embedding"].rows(IDS.numpy()).tobytes() == expected.numpy().tobytes()
    assert lowered.tables["embedding"].codes.tobytes() == layer.to_packed().codes.tobytes()


def test_nested_tables_are_found_at_each_depth(lower):
    model = Stack(word=table(), tag=Encoder(table(16, "vq")), deep=nn.Sequential(Encoder(Encoder(table(256)))))
    lowered = lower(model)
    names = ["parts.word", "parts.tag.embedding", "parts.deep.0.embedding.embedding"]
    assert list(lowered.tables) == names == [report.name for report in lowered.reports]
    assert [lowered.tables[name].num_codes for name in names] == [5, 16, 256]
    assert all(report.lowered and report.uses == 1 and not report.reason for report in lowered.reports)
    assert torch.equal(lowered.program.run(IDS)[0], model.eval()(IDS))


def test_lowered_program_holds_only_packed_tensors(lower):
    lowered = lower(Stack(word=table(), dense=nn.Embedding(20, 12)))
    assert sorted(name for name, _ in lowered.program.module.named_buffers()) == [
        "parts.dense.weight", "parts.word.codes", "parts.word.values",
    ]  # fmt: skip
    assert calls(lowered.program.module.graph, dpq.FROZEN.rows) == 1
    assert calls(lowered.program.module.graph, dpq.TRAINABLE.rows) == 0


@pytest.mark.parametrize("frozen", [False, True])
def test_layer_used_twice_is_one_table(lower, frozen):
    layer = table().freeze() if frozen else table()
    lowered = lower(Stack(query=layer, document=layer))
    (report,) = lowered.reports
    assert report.uses == 2
    assert len(lowered.tables) == 1
    assert calls(lowered.program.module.graph, dpq.FROZEN.rows) == 2
    assert len(dict(lowered.program.module.named_buffers())) == 2


def test_layers_with_same_parameters_are_one_table(lower):
    first, second = table(distance_norm=False), table(distance_norm=False)
    second.query, second.key, second.value = first.query, first.key, first.value
    lowered = lower(Stack(first=first, second=second))
    assert len(lowered.tables) == 1
    assert lowered.reports[0].uses == 2


def test_layers_that_share_some_parameters_are_two_tables(lower):
    first, second = table(), table()
    second.value = first.value
    model = Stack(first=first, second=second)
    lowered = lower(model)
    assert list(lowered.tables) == ["parts.first", "parts.second"]
    assert torch.equal(lowered.program.run(IDS)[0], model.eval()(IDS))


@pytest.mark.parametrize("frozen", [False, True])
def test_layers_with_different_padding_rows_are_two_tables(lower, frozen):
    first, second = table(padding_idx=3), table(padding_idx=7)
    second.load_state_dict(first.state_dict())
    if frozen:
        first.padding_idx = None
        second.freeze()
        first.freeze()
        second.codes[7] = first.codes[7] = 0
        first.codes[3] = 0
        second.codes, first.padding_idx = first.codes, 3
        second.value = first.value
    else:
        second.query, second.key, second.value = first.query, first.key, first.value
        second.running_mean, second.running_var = first.running_mean, first.running_var
    model = Stack(first=first, second=second)
    lowered = lower(model)
    assert sorted(packed.padding_idx for packed in lowered.tables.values()) == [3, 7]
    assert [report.uses for report in lowered.reports] == [1, 1]
    ids = torch.tensor([[3, 7, 5]])
    assert torch.equal(lowered.program.run(ids)[0], model.eval()(ids))


def test_frozen_and_trainable_layers_are_lowered_together(lower):
    model = Stack(old=table(padding_idx=1).freeze(), new=table(16))
    lowered = lower(model)
    assert [(report.name, report.lowered) for report in lowered.reports] == [("parts.old", True), ("parts.new", True)]
    assert torch.equal(lowered.program.run(IDS)[0], model.eval()(IDS))


def test_dense_tables_are_listed_with_reason(lower):
    shared = nn.Embedding(20, 12)
    model = Stack(word=table(), dense=shared, again=shared, padded=nn.Embedding(30, 12, padding_idx=0))
    reports = {report.name: report for report in lower(model).reports}
    assert list(reports) == ["parts.word", "parts.dense", "parts.padded"]
    left = reports["parts.dense"]
    assert (left.method, left.lowered, left.num_embeddings, left.embedding_dim) == ("dense", False, 20, 12)
    assert left.uses == 2
    assert "DPQEmbedding" in left.reason
    assert "edge-embed compress" in left.reason
    assert reports["parts.padded"].num_embeddings == 30


def test_embedding_bag_is_listed_as_dense(lower):
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.bag = table(), nn.EmbeddingBag(20, 12)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.word(ids).sum(1) + self.bag(ids)

    reports = lower(Bag()).reports
    assert [(report.name, report.lowered) for report in reports] == [("word", True), ("bag", False)]


def test_model_without_tables_has_empty_report(lower):
    lowered = lower(nn.Linear(3, 2), torch.randn(4, 3))
    assert not lowered.tables
    assert not lowered.reports


def test_source_program_is_unchanged_by_lowering(capture):
    program = capture(Stack(word=table(padding_idx=2), dense=nn.Embedding(20, 12)))
    graph, weights = str(program.module.graph), dict(program.module.named_buffers())
    before = {name: weight.clone() for name, weight in weights.items()}
    output = program.run(IDS)[0]
    lowered = lower_program(program)
    lowered.program.run(IDS)
    assert str(program.module.graph) == graph
    assert dict(program.module.named_buffers()).keys() == weights.keys()
    assert all(torch.equal(before[name], weight) for name, weight in program.module.named_buffers())
    assert torch.equal(program.run(IDS)[0], output)
    assert lower_program(program).tables["parts.word"].codes.tobytes() == lowered.tables["parts.word"].codes.tobytes()


def test_lowering_twice_gives_same_tables_and_outputs(lower):
    once = lower(Stack(word=table(padding_idx=2)))
    twice = lower_program(once.program)
    assert list(twice.tables) == list(once.tables)
    assert twice.tables["parts.word"].codes.tobytes() == once.tables["parts.word"].codes.tobytes()
    assert torch.equal(twice.program.run(IDS)[0], once.program.run(IDS)[0])


def test_progress_names_table_and_ends_with_all_rows(capture):
    seen: list[tuple[str, int, int]] = []
    layer = DPQEmbedding(5000, 12, 256, 3)
    lower_program(capture(Stack(big=layer, small=table().freeze())), lambda *step: seen.append(step))
    big = [step for step in seen if step[0] == "parts.big"]
    assert len(big) > 3
    assert [done for _, done, _ in big] == sorted(done for _, done, _ in big)
    assert big[-1] == ("parts.big", 5000, 5000)
    assert seen[-1] == ("parts.small", 20, 20)


def test_table_without_use_in_outputs_is_not_packed(lower):
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.unused = table(), table(16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            self.unused(ids)
            return self.word(ids)

    lowered = lower(Unused())
    assert list(lowered.tables) == ["word"]


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"a/b": nn.Embedding(90, 8)}, ["parts.a.b"]),
        (
            {"a/embedding": nn.Embedding(90, 8), "a": Encoder(nn.Embedding(90, 8))},
            ["parts.a.embedding", "parts.a.embedding_1"],
        ),
    ],
)
def test_table_name_with_slash_is_exported_with_dot(parts, names, tmp_path):
    path = edge_embed.save(Stack(**parts), tmp_path / "model.pt", IDS)
    edge_embed.compress(path, "rows", bits=4, output=tmp_path / "small.pt")
    report = edge_embed.export(tmp_path / "small.pt", "onnx", tmp_path / "model.onnx", open=False)
    assert [(table.name, table.method) for table in report.tables] == [(name, "dpq") for name in names]
    inspected = edge_embed.inspect(tmp_path / "model.onnx", verify=True).tables
    assert [(table.name, table.hash_status) for table in inspected] == [(name, "matches") for name in names]
    program = edge_embed.workflow.load(tmp_path / "small.pt")
    (got,) = edge_embed.create_session(tmp_path / "model.onnx").run(None, {"ids": IDS.numpy()})
    assert got.tobytes() == program.run(IDS)[0].numpy().tobytes()
