"""A session that runs portable bodies holds a table once and takes little memory."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edge_embed.packed.ant import PackedANT

from .bodies import ant, check_rows, dpq, ids_of, model_of, node_of, rows_model, session, tt


def constants(graph: onnx.GraphProto) -> int:
    """Return the bytes of all initializers and constants, those of subgraphs included."""
    total = sum(numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            total += numpy_helper.to_array(attribute.t).nbytes if attribute.HasField("t") else 0
            total += constants(attribute.g) if attribute.HasField("g") else 0
    return total


LARGE = {
    "dpq, 4 bits": lambda: dpq(1_000, 16, 64, 1),
    "dpq, 6 bits": lambda: dpq(20_000, 64, 15, 4),
    "dpq, 8 bits": lambda: dpq(20_000, 256, 16, 4),
    "dpq, 8 bits, float16": lambda: dpq(20_000, 256, 16, 4, dtype="float16"),
    "dpq, 4 bits, int8": lambda: dpq(1_000, 16, 64, 16, dtype="int8"),
    "dpq, 12 bits, int8": lambda: dpq(20_000, 4096, 16, 8, dtype="int8"),
    "ant": lambda: ant(10_000, 100, 64, density=0.04),
    "ant, float16": lambda: ant(10_000, 100, 64, "float16", "int8", density=0.04),
    "tt": lambda: tt(3_000, (20, 15, 10), (4, 4, 4), 16),
    "tt, float16": lambda: tt(3_000, (20, 15, 10), (4, 4, 4), 16, dtype="float16"),
}


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.slow
def test_session_holds_table_of_all_uses_once(name, static, tmp_path):
    """No level materialises or duplicates a table that is embedding, bag and both output layers of a model.

    Inputs with static shapes, which give a session more information, are tested too.
    """
    packed = LARGE[name]()
    kind = packed.rows(np.zeros(1, np.int64)).dtype
    ids, offsets = ids_of(packed, (600,)), np.array([0, 600])
    hidden = np.zeros((2, packed.embedding_dim), kind)
    feeds = {"ids": ids, "offsets": offsets, "sample_weights": np.zeros(0, kind), "hidden": hidden}
    feeds["bias"] = np.zeros(packed.num_embeddings, kind)
    nodes = [
        node_of(packed, "rows", ["ids"], "rows"),
        node_of(packed, "bag", ["ids", "offsets", "sample_weights"], "bags", mode="mean"),
        node_of(packed, "logits", ["hidden"], "logits"),
        node_of(packed, "topk", ["hidden", "bias"], "best", "best_ids", bias="bias", k=5),
    ]
    outputs = {"rows": (kind, 2), "bags": (kind, 2), "logits": (kind, 2), "best": (kind, 2), "best_ids": (np.int64, 2)}
    model = model_of(nodes, feeds, outputs)
    if static:
        for value in model.graph.input:
            for size, dim in zip(feeds[value.name].shape, value.type.tensor_type.shape.dim, strict=True):
                dim.dim_value = size
    stored = sum(array.nbytes for array in packed.tensors().values())
    for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"):
        path = tmp_path / f"{level}.onnx"
        session(model, level, str(path)).run(None, feeds)
        assert constants(onnx.load(path).graph) <= 1.05 * stored + 4096, level


_HEAVY = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
ids = np.arange(4096) if sys.argv[2] == "all" else np.zeros(0, np.int64)
session.run(None, {"ids": ids})
# ru_maxrss would begin at what the process of the tests holds.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_ant_row_of_all_anchors_takes_little_memory(tmp_path):
    """4,096 ids, one with 2,000 entries, take a transform of 32 MB (64 MB in float64), not 2 GB of anchors."""
    random = np.random.default_rng(0)
    transform = np.zeros((4096, 2000), np.float32)
    transform[np.arange(4096), random.integers(0, 2000, 4096)] = 1
    transform[77] = 1
    packed = PackedANT.from_dense(transform, random.standard_normal((2000, 64)).astype(np.float32))
    path = tmp_path / "heavy.onnx"
    path.write_bytes(rows_model(packed, np.arange(4096)).SerializeToString())
    peaks = [
        int(subprocess.run([sys.executable, "-c", _HEAVY, str(path), which], capture_output=True, check=True).stdout)
        for which in ("none", "all")
    ]
    assert 60 << 10 < peaks[1] - peaks[0] < 180 << 10  # KiB; less would mean that nothing was measured
    check_rows(packed, np.arange(60, 80))
