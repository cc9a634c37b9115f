"""Small files that read and return texts, as authors of pipelines write them."""

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.exporters.onnx.foreign_models import COLUMNS, ROWS, look_up, model, table

sys.path.append(str(Path(__file__).parents[2] / "exporters/tflite"))
make_node = helper.make_node

WORDS = [f"w{number}" for number in range(ROWS - 1)]
TEXTS = {"text": (TensorProto.STRING, ["batch", "sequence"])}


def encoder(text: str = "text", default: int = ROWS - 1) -> NodeProto:
    """Return a node that gives the ids of words; unknown words share an id of their own."""
    ids = list(range(ROWS - 1))
    return make_node(
        "LabelEncoder", [text], ["ids"], "encode", domain="ai.onnx.ml",
        keys_strings=WORDS, values_int64s=ids, default_int64=default,
    )  # fmt: skip


def of_texts(
    nodes: Sequence[NodeProto], outputs: dict[str, Any], inputs: Any = None, **tensors: Any
) -> onnx.ModelProto:
    made = model(nodes, {"words.weight": table(), **tensors}, outputs, inputs=inputs or TEXTS)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return made


def classifier(default: int = ROWS - 1) -> onnx.ModelProto:
    """Return a model from words to scores, and to the word of a class."""
    nodes = [
        encoder(default=default),
        look_up(),
        make_node("ReduceMean", ["rows", "axis"], ["mean"], keepdims=0),
        make_node("MatMul", ["mean", "head"], ["scores"]),
        make_node("ArgMax", ["scores"], ["best"], axis=-1, keepdims=0),
        make_node("LabelEncoder", ["best"], ["label"], "decode", domain="ai.onnx.ml",
                  keys_int64s=[0, 1, 2], values_strings=["no", "ja", "Größe"], default_string="?"),
    ]  # fmt: skip
    outputs = {"scores": ["batch", 3], "label": (TensorProto.STRING, ["batch"])}
    head = np.random.default_rng(3).standard_normal((COLUMNS, 3)).astype(np.float32)
    return of_texts(nodes, outputs, axis=np.array([1]), head=head)


def normalizer() -> onnx.ModelProto:
    """Return a model that lowers case and drops stop words; its output has the remaining words."""
    nodes = [
        make_node("StringNormalizer", ["text"], ["kept"], locale="C", stopwords=["w3"], case_change_action="LOWER"),
        encoder("kept"),
        look_up(),
    ]
    return of_texts(nodes, {"rows": ["kept", COLUMNS]}, {"text": (TensorProto.STRING, ["words"])})


def compared_in_a_branch() -> onnx.ModelProto:
    """Return a model with a text as constant of a branch, beside a numeric input."""
    key = numpy_helper.from_array(np.array(["secret"], object), "key")
    branch = helper.make_graph(
        [make_node("Constant", [], ["key"], value=key),
         make_node("Equal", ["text", "key"], ["same"]),
         make_node("Cast", ["same"], ["made"], to=TensorProto.INT64)],
        "compares", [], [helper.make_tensor_value_info("made", TensorProto.INT64, ["batch", "sequence"])],
    )  # fmt: skip
    nodes = [
        make_node("Greater", ["factor", "zero"], ["wanted"]),
        make_node("If", ["wanted"], ["ids"], then_branch=branch, else_branch=branch),
        look_up(),
        make_node("Mul", ["rows", "factor"], ["result"]),
    ]
    inputs = {**TEXTS, "factor": []}
    made = of_texts(nodes, {"result": ["batch", "sequence", COLUMNS]}, inputs, zero=np.float32(0))
    next(item for item in made.opset_import if not item.domain).version = 19  # whose Equal compares texts
    return made


def write_hash_table(path: Path) -> Path:
    """Write TensorFlow's StaticHashTable, filled once by a subgraph of its own; its outputs are rows and labels."""
    from tool_files import ROWS, TABLE, ToolFile, gather

    file = ToolFile()
    of_strings = {"tableId": 7, "keyDtype": file.schema.TensorType.STRING, "valueDtype": file.schema.TensorType.INT64}

    def hash_table() -> int:
        return file.add("HASHTABLE", [], [1], "resource", options="HashtableOptions", **of_strings)

    def texts(name: str, values: Sequence[str]) -> int:
        return file.tensor(name, "string", [len(values)], buffer=file.builder.add_buffer(_tensor_of(values)))

    text = file.tensor("text", "string", [1, 4])
    file.builder.add_operator("CALL_ONCE", [], [], "CallOnceOptions", {"initSubgraphIndex": 1})
    unknown = file.constant("unknown", np.array([ROWS - 1], np.int64))
    ids = file.add("HASHTABLE_FIND", [hash_table(), text, unknown], [1, 4], "int64")
    rows = gather(file, ids, file.constant("table", TABLE))
    labels = gather(file, ids, texts("labels", [f"is {number}" for number in range(ROWS)]), (1, 4), kind="string")
    file.graph.inputs, file.graph.outputs = [text], [rows, labels]
    file.begin()
    keys, values = texts("keys", WORDS[: ROWS - 1]), file.constant("values", np.arange(ROWS - 1))
    file.builder.add_operator("HASHTABLE_IMPORT", [hash_table(), keys, values], [], "HashtableImportOptions", {})
    file.graph.inputs, file.graph.outputs = [], []
    file.builder.write(path, {})
    return path


def _tensor_of(texts: Sequence[str]) -> np.ndarray:
    content = [text.encode() for text in texts]
    places = np.cumsum([4 + 4 * (len(content) + 1), *map(len, content)])
    packed = struct.pack(f"<i{len(places)}i", len(content), *places) + b"".join(content)
    return np.frombuffer(packed, np.uint8)
