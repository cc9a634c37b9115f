"""Models whose output consists of table rows only: the same bits on every path."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.packed.dpq import PackedDPQ

KINDS = {
    "vq": {"variant": "vq"},
    "shared subspaces": {"share_subspaces": True},
    "first row is padding": {"padding_idx": 0, "num_codes": 256, "distance_norm": False},
    "1 bit": {"num_codes": 2, "num_groups": 12},
    "one group": {"num_codes": 4, "num_groups": 1},
    "11 bits": {"num_codes": 1025, "num_groups": 6},
    "Euclidean": {"metric": "euclidean", "tie_key_value": True},
    "cosine": {"metric": "cosine", "share_subspaces": True},
    "narrow keys": {"num_groups": 3, "key_dim": 6, "distance_norm": "per_group"},
    "moving averages": {"variant": "vq", "ema_decay": 0.9},
}


def some_ids(shape: tuple[int, ...], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, 20, shape).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_table_alone_is_bit_exact(export, make_table, shapes, kind):
    exported = export(make_table(**KINDS[kind]))
    exported.assert_bit_exact(torch.arange(20).reshape(4, 5))
    for shape in shapes:
        exported.assert_bit_exact(some_ids(shape))
    onnx.checker.check_model(str(exported.path), full_check=True)


def test_versions_are_widely_supported_ones(one_table):
    model = onnx.load(one_table.path)
    assert model.ir_version == 10
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 18, "edge_embed": 1}
    (function,) = model.functions
    assert (function.domain, function.name) == ("edge_embed", "DPQEmbedding")
    assert [(opset.domain, opset.version) for opset in function.opset_import] == [("", 18)]
    assert {node.domain for node in function.node} == {""}


def test_node_attributes_describe_packed_table(one_table):
    (node,) = onnx.load(one_table.path).graph.node
    assert (node.domain, node.op_type) == ("edge_embed", "DPQEmbedding")
    assert {attribute.name: attribute.i for attribute in node.attribute} == {
        "format_version": 1, "bits": 4, "num_codes": 11, "num_groups": 3, "padding_idx": 19,
    }  # fmt: skip


def test_codes_and_values_are_stored_as_packed(one_table):
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(one_table.path).graph.initializer}
    packed = one_table.lowered.tables["embedding"]
    assert stored["embedding.codes"].tobytes() == packed.codes.tobytes()
    assert stored["embedding.values"].tobytes() == packed.values.tobytes()
    assert len(stored) == 2


def test_tables_of_different_bits_share_one_function(export, make_table, add_up, shapes):
    exported = export(add_up(make_table(5), make_table(300, num_groups=4, padding_idx=2)))
    exported.assert_bit_exact(torch.arange(20).reshape(4, 5))
    for shape in shapes:
        exported.assert_bit_exact(some_ids(shape))
    assert len(onnx.load(exported.path).functions) == 1


def test_shared_table_is_stored_once(export, make_table):
    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = self.document = make_table()

        def forward(self, query: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
            return self.query(query).sum(1) * 0 + self.document(document)

    exported = export(Siamese(), (some_ids((2, 3)), some_ids((2,))))
    exported.assert_bit_exact(some_ids((4, 9)), some_ids((4,)))
    graph = onnx.load(exported.path).graph
    tables = [tensor.name for tensor in graph.initializer if tensor.name.endswith((".codes", ".values"))]
    assert len(tables) == 2
    assert sum(node.op_type == "DPQEmbedding" for node in graph.node) == 2


@pytest.mark.parametrize("padding_idx", [None, 4])
def test_dense_embedding_beside_compressed_table_is_exported(export, make_table, add_up, shapes, padding_idx):
    exported = export(add_up(make_table(), nn.Embedding(20, 12, padding_idx=padding_idx)))
    for shape in shapes:
        exported.assert_bit_exact(some_ids(shape))
    assert [report.lowered for report in exported.lowered.reports] == [True, False]


@pytest.mark.parametrize("frozen", [False, True])
def test_example_of_one_id_exports_dynamic_sizes(export, make_table, shapes, frozen):
    layer = make_table(padding_idx=2)
    if frozen:
        layer.freeze()
    exported = export(layer, torch.tensor([[1]]))
    assert exported.file.dynamic == {"ids": ["batch", "sequence"], "output": ["batch", "sequence"]}
    assert exported.file.frozen == {"ids": [], "output": ["12"]}
    for shape in shapes:
        exported.assert_bit_exact(some_ids(shape))


def test_ids_of_rank_0_are_bit_exact(export, make_table):
    exported = export(make_table(padding_idx=3), torch.tensor(1))
    for item in range(20):
        exported.assert_bit_exact(torch.tensor(item))
    onnx.checker.check_model(str(exported.path), full_check=True)


def test_ids_of_rank_4_are_bit_exact(export, make_table):
    exported = export(make_table(), some_ids((1, 2, 1, 3)))
    exported.assert_bit_exact(some_ids((2, 1, 4, 2)))
    exported.assert_bit_exact(some_ids((2, 0, 4, 2)))


def test_ids_of_int32_stay_int32(export, make_table):
    exported = export(make_table(padding_idx=3), some_ids((2, 3), torch.int32))
    graph = onnx.load(exported.path).graph
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT32
    assert [node.op_type for node in graph.node] == ["DPQEmbedding"]
    exported.assert_bit_exact(torch.arange(20, dtype=torch.int32).reshape(4, 5))
    exported.assert_bit_exact(some_ids((0, 3), torch.int32))


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8], ids=str)
def test_narrow_ids_keep_their_type_and_are_cast(export, make_table, dtype):
    """The operator accepts int32 and int64 only; the file widens ids with a Cast."""
    exported = export(make_table(), some_ids((2, 3), dtype))
    assert [node.op_type for node in onnx.load(exported.path).graph.node] == ["Cast", "DPQEmbedding"]
    assert exported.program.inputs[0].dtype == dtype
    exported.assert_bit_exact(torch.arange(20).to(dtype).reshape(4, 5))
    onnx.checker.check_model(str(exported.path), full_check=True)


def assert_refused(exported, bad: int, dtype: torch.dtype) -> None:
    ids = torch.tensor([[3, 19], [bad, 0]], dtype=dtype)
    with pytest.raises(Exception, match=rf"{bad}\b.*0 <= id < 20"):
        exported.run("library", ids)
    for way in ("portable", "reference"):
        with pytest.raises(Exception, match=r"(?i)ind(ex|ices).*bound"):
            exported.run(way, ids)


@pytest.mark.parametrize("bad", [-1, 20, -20, -(2**63), 2**63 - 1])
def test_ids_out_of_range_raise_on_every_path(one_table, bad):
    assert_refused(one_table, bad, torch.int64)
    one_table.assert_bit_exact(some_ids((2, 2)))  # the sessions stay usable


def test_narrow_ids_out_of_range_raise(export, make_table):
    exported = export(make_table(), some_ids((2, 3), torch.int32))
    for bad in (-1, 20, -(2**31), 2**31 - 1):
        assert_refused(exported, bad, torch.int32)


def test_padding_row_is_positive_zero_on_every_path(one_table):
    for way in ("library", "portable", "reference"):
        (rows,) = one_table.run(way, torch.tensor([[19, 1, 19]]))
        assert rows[0, [0, 2]].tobytes() == bytes(2 * 12 * 4)
        assert rows[0, 1].any()


def test_table_frozen_from_packed_form_is_bit_exact(export):
    """65,536 codes of two bytes are the widest."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 65536, (20, 2))
    codes[0] = 65535
    packed = PackedDPQ.from_codes(codes, random.standard_normal((2, 65536, 2)).astype(np.float32))
    exported = export(DPQEmbedding.from_packed(packed))
    ids = torch.arange(20).reshape(4, 5)
    exported.assert_bit_exact(ids)
    assert exported.run("portable", ids)[0].tobytes() == packed.rows(ids.numpy()).tobytes()


def test_inputs_and_outputs_keep_their_names(export, make_table):
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.tag = make_table(), make_table(16)

        def forward(self, words: torch.Tensor, tags: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"words": self.word(words), "both": self.word(words).sum(1) + self.tag(tags)}

    exported = export(Pair(), (some_ids((2, 3)), some_ids((2,), torch.int32)))
    model = onnx.load(exported.path)
    assert [value.name for value in model.graph.input] == ["words", "tags"]
    assert [value.name for value in model.graph.output] == ["words_output", "both"]  # "words" is the input
    assert exported.file.dynamic["words"] == ["batch", "sequence"]
    assert exported.file.dynamic["tags"] == ["batch"]
    exported.assert_bit_exact(some_ids((5, 1)), some_ids((5,), torch.int32))


def test_padding_masked_by_model_is_bit_exact(export, make_table):
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = make_table(padding_idx=0)

        def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.words(ids) * (ids != 0)[..., None], (ids != 0).sum(1)

    exported = export(Masked())
    for shape in ((2, 3), (4, 1)):
        exported.assert_bit_exact(some_ids(shape))


def test_inputs_with_one_example_tensor_stay_separate(export, make_table):
    """torch.export treats one tensor object given twice as one input, which would ignore half of the ids."""

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = make_table()

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return self.embedding(first) - self.embedding(second)

    same = some_ids((2, 3))
    exported = export(Pair(), (same, same))
    inputs = some_ids((4, 5)), some_ids((4, 5))
    assert exported.model(*inputs).detach().numpy().tobytes() == exported.run("library", *inputs)[0].tobytes()
    exported.assert_bit_exact(*inputs)
