"""Sparse activations in ONNX Runtime: the kernel and the portable body against torch in float64."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper
from ort_nodes import open_session, run

from edge_embed.exporters.onnx.entmax import function
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS
from edge_embed.ops.entmax import entmax, entmax15, sparsemax, topk_sparsemax

ALPHAS = (1.0, 1.0000001, 1.001, 1.25, 1.5, 1.9, 2.0)
INF, NAN = np.inf, np.nan
EDGES = np.array(
    [
        [INF, 0, 1, 2],
        [NAN, 0, 1, 2],
        [0, 1, 2, NAN],
        [-INF] * 4,
        [-INF, 0, 1, 2],
        [0, 0, 0, 0],
        [1, -INF, -INF, -INF],
        [INF, INF, 0, -INF],
        [-3e38, 3e38, 0, 0],
    ],
    np.float32,
)


def model(op_type: str, rank: int = 2, kind: int = TensorProto.FLOAT, k: int = 3, alpha_rank: int = 1):
    """Return a model of one node, with its portable body."""
    inputs = [helper.make_tensor_value_info("scores", kind, [None] * rank)]
    if op_type == "Entmax":
        inputs.append(helper.make_tensor_value_info("alpha", TensorProto.FLOAT, [None] * alpha_rank))
    attributes = {"format_version": 1} | ({"k": k} if op_type == "TopKSparsemax" else {})
    node = helper.make_node(op_type, [item.name for item in inputs], ["p"], domain="edge_embed", **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("p", kind, [None] * rank)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("edge_embed", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function(op_type)])


def opened(given: onnx.ModelProto, library: bool, threads: int = 1) -> ort.InferenceSession:
    if library:
        return open_session(given, threads)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(given.SerializeToString(), options, providers=["CPUExecutionProvider"])


def exact(op_type: str, scores: np.ndarray, alpha: np.ndarray | None = None, k: int = 3) -> np.ndarray:
    wide = torch.from_numpy(scores.astype(np.float64))
    if op_type == "Entmax":
        return entmax(wide, torch.from_numpy(alpha.astype(np.float64))).numpy()
    return {"Sparsemax": sparsemax, "Entmax15": entmax15, "TopKSparsemax": lambda x: topk_sparsemax(x, k)}[op_type](
        wide
    ).numpy()


def inputs_of(op_type: str, scores: np.ndarray, alpha: float = 1.3) -> list[np.ndarray]:
    return [scores, np.float32([alpha])] if op_type == "Entmax" else [scores]


@pytest.mark.parametrize("library", [True, False], ids=["kernel", "body"])
@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_activation_is_within_a_millionth_of_float64(op_type, library):
    session, half = (opened(model(op_type, kind=kind), library) for kind in (TensorProto.FLOAT, TensorProto.FLOAT16))
    random = np.random.default_rng(0)
    for n in (3, 17, 600):
        for scale in (0.0, 0.01, 1.0, 30.0):
            scores = (scale * random.standard_normal((4, n))).astype(np.float32)
            for alpha in ALPHAS if op_type == "Entmax" else ALPHAS[:1]:
                got = run(session, *inputs_of(op_type, scores, alpha))
                np.testing.assert_allclose(got, exact(op_type, scores, np.float32([alpha])), rtol=0, atol=1e-6)
        narrow = scores.astype(np.float16)
        got = run(half, *inputs_of(op_type, narrow))
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, exact(op_type, narrow, np.float32([1.3])), rtol=0, atol=5e-4)


@pytest.mark.parametrize("library", [True, False], ids=["kernel", "body"])
@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_rows_of_special_scores_are_those_of_torch(op_type, library):
    session = opened(model(op_type), library)
    got, wanted = run(session, *inputs_of(op_type, EDGES)), exact(op_type, EDGES, np.float32([1.3]))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    assert (got[4:7][wanted[4:7] == 0] == 0).all()
    for shape in ((0, 4), (0, 3), *(() if op_type == "TopKSparsemax" else ((2, 0), (0, 0), (3, 1)))):
        assert run(session, *inputs_of(op_type, np.zeros(shape, np.float32))).shape == shape


@pytest.mark.parametrize("library", [True, False], ids=["kernel", "body"])
def test_alpha_of_each_attention_head_broadcasts(library):
    session = opened(model("Entmax", rank=4, alpha_rank=3), library, threads=2)
    scores = np.random.default_rng(1).standard_normal((2, 3, 40, 50)).astype(np.float32)
    for shape in ((3, 1, 1), (1, 40, 1), (3, 40, 1), (1, 1, 1)):
        alpha = np.linspace(1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        np.testing.assert_allclose(run(session, scores, alpha), exact("Entmax", scores, alpha), rtol=0, atol=1e-6)
    for wrong in (0.9, 4.1, NAN):
        alpha = np.float32([1.5, wrong, 2]).reshape(3, 1, 1)
        is_nan = np.isnan(run(session, scores, alpha))
        assert is_nan[:, 1].all()
        assert not is_nan[:, ::2].any()


@pytest.mark.parametrize("library", [True, False], ids=["kernel", "body"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)], ids=str)
def test_empty_scores_take_alphas_of_every_rank(library, shape):
    for of_alpha in ((1,), (1, 1), (1, 1, 1), (3, 1, 1), (1, 1, 1, 1)):
        if len(of_alpha) == 3 and of_alpha[0] != 1 and shape[1] == 0:
            continue  # three alphas for no attention head
        session = opened(model("Entmax", rank=4, alpha_rank=len(of_alpha)), library)
        found = run(session, np.zeros(shape, np.float32), np.full(of_alpha, 1.5, np.float32))
        assert found.shape == shape


def test_kernel_of_large_alpha_is_exact():
    session = opened(model("Entmax"), library=True)
    scores = (0.01 * np.random.default_rng(2).standard_normal((5, 300))).astype(np.float32)
    for alpha in (2.5, 4.0):
        got = run(session, scores, np.float32([alpha]))
        np.testing.assert_allclose(got, exact("Entmax", scores, np.float32([alpha])), rtol=0, atol=1e-6)


@pytest.mark.parametrize("library", [True, False], ids=["kernel", "body"])
@pytest.mark.parametrize("k", [1, 2, 7, 39, 40])
def test_first_of_equal_scores_are_largest(library, k):
    scores = np.random.default_rng(3).integers(0, 3, (50, 40)).astype(np.float32) / 16
    scores[1] = 0
    got = run(opened(model("TopKSparsemax", k=k), library), scores)
    # Before equal scores, the first ones are raised by less than the tolerance.
    apart = scores - np.arange(40, dtype=np.float32) * 1e-9
    np.testing.assert_allclose(got, exact("TopKSparsemax", apart.astype(np.float64), k=k), rtol=0, atol=1e-6)


@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_threads_change_no_bit(op_type):
    scores = np.random.default_rng(4).standard_normal((700, 300)).astype(np.float32)
    one, four = (run(opened(model(op_type), True, threads), *inputs_of(op_type, scores)) for threads in (1, 4))
    assert one.tobytes() == four.tobytes()


@pytest.mark.parametrize(
    ("op_type", "scores", "alpha", "message"),
    [
        ("Sparsemax", (), None, "got scores of shape .*, expected at least one dimension: reshape them"),
        ("TopKSparsemax", (2, 2), None, r"got scores of shape \[2, 2\], expected at least k=3 in the last dimension"),
        ("TopKSparsemax", (2, 0), None, r"got scores of shape \[2, 0\], expected at least k=3"),
        ("TopKSparsemax", (0, 2), None, r"got scores of shape \[0, 2\], expected at least k=3"),
        ("Entmax", (2, 5), (5,), r"got alpha of shape \[5\] and scores of shape \[2, 5\], expected an alpha that bro"),
        ("Entmax", (2, 5), (3, 1), r"got alpha of shape \[3, 1\] and scores"),
        ("Entmax", (2, 5), (0,), r"got alpha of shape \[0\] and scores"),
        ("Entmax", (2, 5), (1, 2, 1), r"got alpha of shape \[1, 2, 1\] and scores"),
    ],
)
def test_kernel_refuses_other_shapes(op_type, scores, alpha, message):
    session = opened(model(op_type, len(scores), alpha_rank=len(alpha or (1,))), library=True)
    given = [np.zeros(scores, np.float32), *([] if alpha is None else [np.ones(alpha, np.float32)])]
    with pytest.raises(Exception, match=message):
        run(session, *given)


@pytest.mark.parametrize("k", [0, -1])
def test_kernel_refuses_k_below_one(k):
    with pytest.raises(Exception, match=f"got k={k}, expected at least 1"):
        opened(model("TopKSparsemax", k=k), library=True)


def test_kernel_refuses_nodes_of_later_versions():
    later = model("Sparsemax")
    later.graph.node[0].attribute[0].i = 2
    with pytest.raises(Exception, match="got format_version 2, expected 1"):
        opened(later, library=True)
