"""Models as users write them: the program that is read back computes the module's results, at other sizes too."""

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.program.capture import write_archive
from edge_embed.program.program import Program
from edge_embed.program.reader import read_program


class Net(nn.Module):
    """A compressed table and the layers of a case; ``body(net, *inputs)`` is its forward."""

    def __init__(self, body: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.table = DPQEmbedding(20, 8, 5, 2)
        self.body = body
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, ids: Tensor, other: Any = None) -> Any:
        return self.body(self, ids) if other is None else self.body(self, ids, other)


def ids(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape, generator=torch.Generator().manual_seed(sum(shape)))


def roundtrip(model: nn.Module, path: Path, examples: Any, *rest: Any) -> Program:
    with path.open("wb") as file:
        write_archive(model, file, examples, *rest)
    return read_program(path)


def assert_same(model: nn.Module, program: Program, inputs: Any) -> None:
    model.eval()
    expected = pytree.tree_leaves(model(**inputs) if isinstance(inputs, dict) else model(*inputs))
    got = program.run(*(leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)))
    assert len(got) == len(expected) == len(program.output_names)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def positions(net: Any, x: Tensor) -> Tensor:
    length = x.shape[1]
    rows = net.table(x) + net.position(torch.arange(length, device=x.device))[None]
    causal = torch.tril(torch.ones(length, length, dtype=torch.bool))
    scores = (rows @ rows.transpose(1, 2)).masked_fill(~causal, float("-inf"))
    return scores.softmax(-1) @ rows


def sinusoids(net: Any, x: Tensor) -> Tensor:
    at = torch.arange(x.shape[1]).unsqueeze(1)
    rate = torch.exp(torch.arange(0, 8, 2) * (-math.log(1e4) / 8))
    table = torch.zeros(x.shape[1], 8)
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return net.table(x) + table  # type: ignore[no-any-return]


def shape_arithmetic(net: Any, x: Tensor) -> Tensor:
    rows = net.table(x)
    double = x.shape[1] * 2
    twice = torch.cat([rows, rows], 1)[:, : double - 1]
    return twice.reshape(x.shape[0], -1).view(x.size(0), double - 1, 8) / x.shape[1] ** 0.5 + x.shape[1] // 2


def attention(net: Any, x: Tensor) -> Any:
    rows = net.table(x)
    return net.attention(rows, rows, rows, key_padding_mask=x == 0)


def split(net: Any, x: Tensor) -> Any:
    rows = net.table(x)
    a, b = rows.split(4, -1)
    c, d = rows.chunk(2, -1)
    small, large = rows.split([3, 5], -1)
    return a * b + c * d, small, large.sum(-1) + torch.unbind(rows, -1)[0], torch.tensor_split(rows, 2, -1)[1]


def pooled(net: Any, x: Tensor) -> Any:
    rows = net.conv(net.table(x).transpose(1, 2))
    return *net.pool(rows), F.adaptive_max_pool1d(rows, 1), F.adaptive_avg_pool1d(rows, 1)


def masked(net: Any, x: Tensor) -> Any:
    rows, mask = net.table(x), (x != 3).unsqueeze(-1)
    last = rows[torch.arange(x.shape[0]), (x != 3).sum(1) - 1]
    bits = (x > 3) & (x < 9) | (x == 0)
    return (rows * mask).sum(1) / mask.sum(1).clamp(min=1), torch.where(mask, rows, 0.0), last, bits, x >> 1, x % 3


def half(net: Any, x: Tensor) -> Tensor:
    rows = net.table(x)
    return net.small(rows.half()).float() + net.brain(rows.bfloat16()).float()


def in_place(net: Any, x: Tensor) -> Tensor:
    rows = net.drop(net.relu(net.table(x) + 0))
    rows += 1
    return net.norm(net.batch(rows.transpose(1, 2)).transpose(1, 2))  # type: ignore[no-any-return]


def many(net: Any, x: Tensor) -> Any:
    rows = net.table(x)
    wide = rows.transpose(1, 2)
    return [
        net.group(wide), net.rms(rows), net.prelu(rows), F.normalize(rows, dim=-1), F.one_hot(x, 20), F.silu(rows),
        F.gelu(rows, approximate="tanh"), F.pad(rows, (0, 0, 1, 0)), F.scaled_dot_product_attention(rows, rows, rows),
        rows.std(-1), rows.norm(dim=-1), rows.logsumexp(-1), rows.argmax(-1), torch.stack([rows, rows]), rows.flip(1),
        rows.roll(1, 1), rows.repeat(1, 2, 1), rows.topk(2, -1).values, rows.sort(-1)[0], rows.cumsum(1),
        torch.bucketize(rows, torch.linspace(-1, 1, 5)), F.interpolate(wide, scale_factor=2.0), rows.double(),
        torch.einsum("bid,bjd->bij", rows, rows), F.cosine_similarity(rows, rows + 1, dim=-1), rows[:, -1],
    ]  # fmt: skip


def encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


CASES: dict[str, Callable[[], nn.Module]] = {
    "in place, dropout, norms": lambda: Net(
        in_place, relu=nn.ReLU(inplace=True), drop=nn.Dropout(0.5), batch=nn.BatchNorm1d(8), norm=nn.LayerNorm(8)
    ),
    "transformer": lambda: Net(
        lambda net, x: net.encoder(net.table(x), src_key_padding_mask=x == 0), encoder=encoder()
    ),
    "causal transformer": lambda: Net(
        lambda net, x: net.encoder(
            net.table(x), mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True
        ),
        encoder=encoder(norm_first=True, activation="gelu"),
    ),
    "transformer with a mask": lambda: Net(
        lambda net, x: net.encoder(
            net.table(x), mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        ),
        encoder=encoder(),
    ),
    "transformer with a window": lambda: Net(
        lambda net, x: net.encoder(net.table(x), mask=torch.ones(x.shape[1], x.shape[1]).triu(2).bool()),
        encoder=encoder(norm_first=True),
    ),
    "decoder with a mask": lambda: Net(
        lambda net, x: net.decoder(
            net.table(x), net.table(x), tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        ),
        decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1),
    ),
    "attention": lambda: Net(attention, attention=nn.MultiheadAttention(8, 2, batch_first=True)),
    "split": lambda: Net(split),
    "half": lambda: Net(half, small=nn.Linear(8, 8).half(), brain=nn.Linear(8, 8).bfloat16()),
    "shape arithmetic": lambda: Net(shape_arithmetic),
    "positions": lambda: Net(positions, position=nn.Embedding(32, 8)),
    "sinusoids": lambda: Net(sinusoids),
    "convolution": lambda: Net(pooled, conv=nn.Conv1d(8, 6, 3, padding=1), pool=nn.MaxPool1d(2, return_indices=True)),
    "masks": lambda: Net(masked),
    "bag": lambda: Net(lambda net, x: net.bag(x) + net.table(x).mean(1), bag=nn.EmbeddingBag(20, 8, mode="mean")),
    "recurrent": lambda: Net(
        lambda net, x: net.lstm(net.table(x)), lstm=nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)
    ),
    "many": lambda: Net(many, group=nn.GroupNorm(2, 8), rms=nn.RMSNorm(8), prelu=nn.PReLU()),
    "bare table": lambda: DPQEmbedding(20, 8, 5, 2),
    "frozen table": lambda: DPQEmbedding(20, 8, 5, 2).freeze(),
    "sequential": lambda: nn.Sequential(DPQEmbedding(20, 8, 5, 2), nn.Linear(8, 4), nn.Tanh()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_saved_model_is_read_back_and_computes_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = CASES[name]()
    program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert [item.shape for item in program.inputs] == [("batch", "sequence")]
    for shape in ((2, 5), (4, 9), (1, 2)):
        assert_same(model, program, (ids(*shape),))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda n: (ids(n, 5), torch.randn(n)), ["ids", "other"]),
        (lambda n: {"ids": ids(n, 5), "other": torch.randn(n)}, ["ids", "other"]),
        (lambda n: {"other": torch.randn(n), "ids": ids(n, 5)}, ["other", "ids"]),
        (lambda n: (ids(n, 5), None), ["ids"]),
        (lambda n: (ids(n, 5), 3), ["ids"]),
        (lambda n: (ids(n, 5), 0.5), ["ids"]),
        (lambda n: (ids(n, 5), (torch.randn(n), torch.randn(n))), ["ids", "other_0", "other_1"]),
        (lambda n: (ids(n, 5), {"b": torch.randn(n), "a": [torch.randn(n), None]}), ["ids", "other_b", "other_a_0"]),
    ],
)
def test_inputs_of_every_form_are_read_back(make: Callable[[int], Any], names: list[str], tmp_path: Path) -> None:
    """Inputs are positional, named in any order, optional, constant and nested."""

    def body(net: Any, x: Tensor, other: Any = None) -> Tensor:
        rows = net.table(x)
        for leaf in pytree.tree_leaves(other):
            if leaf is not None:
                rows = rows * (leaf[:, None, None] if isinstance(leaf, Tensor) else leaf)
        return rows  # type: ignore[no-any-return]

    model = Net(body)
    program = roundtrip(model, tmp_path / "model.pt", make(2))
    assert [item.name for item in program.inputs] == names
    assert_same(model, program, make(4))


def test_outputs_are_named_by_structure(tmp_path: Path) -> None:
    model = Net(lambda net, x: {"logits": net.table(x), "state": (x * 2, {"deep": x + 1})})
    program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert program.output_names == ("logits", "state_0", "state_1_deep")
    assert_same(model, program, (ids(4, 9),))


@pytest.mark.parametrize(
    ("wrap", "names"),
    [(lambda best: best, ("values", "ids_output")), (lambda best: {"best": best}, ("best_values", "best_ids"))],
)
def test_topk_outputs_are_named(tmp_path: Path, wrap: Any, names: tuple[str, ...]) -> None:
    model = Net(lambda net, x: wrap(TiedOutput(net.table).topk(net.table(x), 3)))
    program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert program.output_names == names
    assert_same(model, program, (ids(4, 9),))


class Stores(nn.Module):
    """A model that stores tensors in every way, under names that are attributes of our own classes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DPQEmbedding(20, 8, 5, 2)
        self.weight = nn.Parameter(torch.randn(8))
        self.register_buffer("add_weight", torch.randn(8))
        self.register_buffer("hidden", torch.randn(8), persistent=False)
        self.register_buffer("wide", torch.randn(1).expand(8))
        self.register_buffer("turned", torch.randn(8, 8).t())
        self.constant = torch.randn(8)
        self.dense = nn.Embedding(20, 8, padding_idx=0)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.dense.weight
        self.run = nn.ModuleDict({"en->de": nn.Linear(8, 8), "a b": nn.Linear(8, 8)})

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.run["a b"](self.run["en->de"](self.table(ids))) @ self.turned
        rows = rows * self.weight + self.add_weight * self.hidden + self.wide + self.constant + torch.tensor([2.0])
        return self.head(rows + self.dense(ids))  # type: ignore[no-any-return]


def test_stored_tensors_keep_names_and_are_not_duplicated(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stores()
    program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert_same(model, program, (ids(4, 9),))
    names = dict(program.module.named_buffers())
    assert len([name for name in names if name in ("dense.weight", "head.weight")]) == 1, "a tied weight is stored once"
    assert {"weight", "add_weight", "hidden", "run.en->de.weight"} <= names.keys()


def test_size_fixed_by_model_is_reported_and_enforced(tmp_path: Path) -> None:
    """math.sqrt of a length freezes it in torch.export; another length would give wrong numbers."""
    model = Net(lambda net, x: net.table(x) / math.sqrt(x.shape[1]))
    program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert program.inputs[0].shape == ("batch", 5)
    with pytest.raises(BadInputError, match=r"input ids: got int64\[4,9\], expected int64\[batch,5\]"):
        program.run(ids(4, 9))
    with pytest.raises(BadInputError, match="got 2 inputs, expected 1"):
        program.run(ids(4, 5), ids(4, 5))


def test_ids_of_any_integer_type_are_accepted(tmp_path: Path) -> None:
    program = roundtrip(DPQEmbedding(20, 8, 5, 2), tmp_path / "model.pt", ids(2, 5))
    assert torch.equal(program.run(ids(3, 4))[0], program.run(ids(3, 4).int())[0])
    with pytest.raises(BadInputError, match="float32"):
        program.run(ids(3, 4).float())


def test_dimension_names_of_user_are_kept(tmp_path: Path) -> None:
    batch, length = Dim("texts"), Dim("words")
    model = Net(lambda net, x, other: net.table(x) * other[0][:, None, None])
    examples = (ids(2, 5), (torch.randn(2),))
    shapes = {"ids": (batch, length), "other": ((batch,),)}
    program = roundtrip(model, tmp_path / "model.pt", examples, shapes)
    assert [item.shape for item in program.inputs] == [("texts", "words"), ("texts",)]


@pytest.mark.slow
def test_frozen_parameters_use_no_fused_path(tmp_path: Path) -> None:
    model = CASES["transformer"]().requires_grad_(False)
    with torch.no_grad():
        program = roundtrip(model, tmp_path / "model.pt", ids(2, 5))
    assert_same(model, program, (ids(4, 9),))


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.slow
def test_archive_of_torch_export_is_read(tmp_path: Path) -> None:
    """A ``.pt2`` made without this package is decomposed to core operators."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), encoder()).eval()
    program = torch.export.export(model, (ids(2, 5),), dynamic_shapes=((Dim.AUTO, Dim.AUTO),)).run_decompositions()
    torch.export.save(program, tmp_path / "model.pt2")
    assert_same(model, read_program(tmp_path / "model.pt2"), (ids(4, 9),))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (lambda net, x: net.table(x) * x.sum().item(), "reads a number from a tensor|cannot be|is not supported"),
        (lambda net, x: net.table(x) if x.sum() > 0 else net.table(x + 1), "cannot be traced"),
        (lambda net, x: torch.rand_like(net.table(x)), "rand"),
        (lambda net, x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)), "control flow"),
        (lambda net, x: (net.table(x), 7), "an output is not a tensor|expected a tensor|cannot be traced"),
    ],
)
def test_models_that_cannot_be_saved_are_refused(body: Callable[..., Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=match):
        roundtrip(Net(body), tmp_path / "model.pt", ids(2, 5))


def test_changed_buffer_is_named(tmp_path: Path) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = DPQEmbedding(20, 8, 5, 2)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, ids: Tensor) -> Tensor:
            self.seen += 1
            return self.table(ids)  # type: ignore[no-any-return]

    with pytest.raises(BadInputError, match="changes its buffer 'seen' while it runs"):
        roundtrip(Counts(), tmp_path / "model.pt", ids(2, 5))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"vocabulary": ["a", 1]}, "vocabulary: got 1"),
        ({"metadata": {"a": object()}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "surrogate"),
    ],
)
def test_vocabulary_and_metadata_are_checked_first(options: dict[str, Any], match: str) -> None:
    with pytest.raises(BadInputError, match=match):
        write_archive(nn.Identity(), io.BytesIO(), ids(2), **options)


def test_archive_holds_no_source_path(tmp_path: Path) -> None:
    roundtrip(CASES["attention"](), tmp_path / "model.pt", ids(2, 5))
    data = (tmp_path / "model.pt").read_bytes()
    assert str(Path(__file__).parent).encode() not in data
    assert b"test_models" not in data


@pytest.mark.parametrize(
    ("forward", "names"),
    [
        (lambda rows: rows.topk(2), ["values", "indices"]),
        (lambda rows: {"rows": rows, "best": rows.max(-1)}, ["rows", "best_values", "best_indices"]),
        (lambda rows: (rows, rows.sort(-1)), []),
    ],
    ids=["topk", "max", "sort"],
)
def test_model_that_returns_a_result_of_torch_is_saved_with_its_fields(tmp_path, forward, names):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = edge_embed.DPQEmbedding(30, 8, 4, 2)

        def forward(self, ids):
            return forward(self.words(ids))

    model, ids = Model().eval(), torch.tensor([[1, 2, 3]])
    edge_embed.save(model, tmp_path / "m.pt", example_inputs=ids)
    program = workflow.load(tmp_path / "m.pt")
    assert list(program.output_names) == names or not names
    expected = pytree.tree_leaves(model(ids))
    found = pytree.tree_leaves(program.module(ids))
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted)
