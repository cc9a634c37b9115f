"""Faults in ONNX files as data: the place of each, its change, and the words that the message must contain."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

Change = Callable[[Path], None]


@dataclass(frozen=True)
class Plant:
    """A fault.

    Attributes:
        where: the part of the file.
        what: the change in words.
        change: plants it in a file.
        said: words that the message must contain.
        model: name of one of the exported models.
    """

    where: str
    what: str
    change: Change
    said: str
    model: str = "words"

    def __str__(self) -> str:
        return f"{self.model}: {self.where}: {self.what}"


def edit(change: Callable[[ModelProto], None]) -> Change:
    """Change the model and keep its external data."""

    def planted(path: Path) -> None:
        model = onnx.load(path, load_external_data=False)
        change(model)
        path.write_bytes(model.SerializeToString())

    return planted


def tensor_of(model: ModelProto, name: str) -> TensorProto:
    (found,) = [tensor for tensor in model.graph.initializer if tensor.name.endswith(name)]
    return found


def numbers(name: str, change: Callable[[np.ndarray], None]) -> Change:
    """Change the bytes of a stored tensor."""

    def planted(model: ModelProto) -> None:
        tensor = tensor_of(model, name)
        content = np.frombuffer(tensor.raw_data, np.uint8).copy()
        change(content)
        tensor.raw_data = content.tobytes()

    return edit(planted)


def bit(byte: int, place: int = 0) -> Callable[[np.ndarray], None]:
    def change(content: np.ndarray) -> None:
        content[byte] ^= np.uint8(1 << place)

    return change


def swap(one: int, other: int, size: int) -> Callable[[np.ndarray], None]:
    """Swap two stretches of bytes, such as rows."""

    def change(content: np.ndarray) -> None:
        parts = content.reshape(-1, size)
        assert (parts[one] != parts[other]).any()
        parts[[one, other]] = parts[[other, one]]

    return change


def ours(model: ModelProto) -> NodeProto:
    return next(node for node in model.graph.node if node.domain == "edge_embed")


def attribute(name: str, by: int) -> Change:
    def planted(model: ModelProto) -> None:
        (found,) = [item for item in ours(model).attribute if item.name == name]
        found.i += by

    return edit(planted)


def node(op_type: str, change: Callable[[NodeProto], None]) -> Change:
    return edit(lambda model: change(next(each for each in model.graph.node if each.op_type == op_type)))


def body_constant(index: int) -> Change:
    """Change the constant of that number in the portable body."""

    def planted(model: ModelProto) -> None:
        constants = [each for each in model.functions[0].node if each.op_type == "Constant"]
        (value,) = constants[index % len(constants)].attribute
        if value.ref_attr_name:
            value.ref_attr_name = "padding_idx" if value.ref_attr_name != "padding_idx" else "num_codes"
        elif value.type == AttributeProto.TENSOR:
            array = numpy_helper.to_array(value.t)
            value.t.CopyFrom(numpy_helper.from_array(array + array.dtype.type(1)))
        elif value.type == AttributeProto.INTS:
            value.ints[0] += 1
        else:
            assert value.type == AttributeProto.INT
            value.i += 1

    return edit(planted)


def body(change: Callable[[onnx.FunctionProto], object]) -> Change:
    return edit(lambda model: change(model.functions[0]) and None)


def append(op_type: str) -> Change:
    """Insert a node without effect between the last one and the output."""

    def planted(model: ModelProto) -> None:
        (output,) = model.graph.output
        last = next(each for each in model.graph.node if output.name in each.output)
        last.output[0] = "planted"
        model.graph.node.append(helper.make_node(op_type, ["planted"], [output.name]))

    return edit(planted)


def remove_bias(model: ModelProto) -> None:
    add = next(each for each in model.graph.node if each.op_type == "Add")
    source = next(each for each in model.graph.node if each.output[0] in add.input)
    source.output[0] = add.output[0]
    model.graph.node.remove(add)


def dead_node(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Abs", [model.graph.output[0].name], ["unused"]))


def text(key: str, change: Callable[[str], str]) -> Change:
    def planted(model: ModelProto) -> None:
        (item,) = [item for item in model.metadata_props if item.key == key]
        changed = change(item.value)
        assert changed != item.value
        item.value = changed

    return edit(planted)


def drop(key: str) -> Change:
    def planted(model: ModelProto) -> None:
        kept = [item for item in model.metadata_props if item.key != key]
        del model.metadata_props[:]
        model.metadata_props.extend(kept)

    return edit(planted)


def manifest(change: Callable[[dict], object]) -> Change:
    def changed(value: str) -> str:
        content = json.loads(value)
        change(content["tables"]["words"] if "tables" in content else content)
        return json.dumps(content)

    return text("edge_embed.tables", changed)


def external(byte_of: str, at: int) -> Change:
    """Flip a bit in the file beside the model."""

    def planted(path: Path) -> None:
        tensor = tensor_of(onnx.load(path, load_external_data=False), byte_of)
        place = {item.key: item.value for item in tensor.external_data}
        data = path.with_name(path.name + ".data")
        content = bytearray(data.read_bytes())
        content[int(place["offset"]) + at] ^= 1
        data.write_bytes(content)

    return planted


def place(name: str, key: str, by: int) -> Change:
    def planted(model: ModelProto) -> None:
        (item,) = [item for item in tensor_of(model, name).external_data if item.key == key]
        item.value = str(int(item.value) + by)

    return edit(planted)


def rename(old: str, new: str) -> Change:
    """Rename a value everywhere."""

    def planted(model: ModelProto) -> None:
        for each in model.graph.node:
            for names in (each.input, each.output):
                for index, name in enumerate(names):
                    if name == old:
                        names[index] = new
        for value in (*model.graph.input, *model.graph.output):
            if value.name == old:
                value.name = new

    return edit(planted)


def size(port: str, at: int, planted: int | str) -> Change:
    """Change a declared size of an input or output."""

    def change(model: ModelProto) -> None:
        (value,) = [each for each in (*model.graph.input, *model.graph.output) if each.name == port]
        kind = "dim_value" if isinstance(planted, int) else "dim_param"
        setattr(value.type.tensor_type.shape.dim[at], kind, planted)

    return edit(change)


def listed_weight(name: str) -> Change:
    """List a weight as an input that callers may replace."""

    def change(model: ModelProto) -> None:
        tensor = tensor_of(model, name)
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))

    return edit(change)


def opset(domain: str, version: int) -> Change:
    def planted(model: ModelProto) -> None:
        for item in (*model.opset_import, *(item for each in model.functions for item in each.opset_import)):
            if item.domain == domain:
                item.version = version

    return edit(planted)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_inputs(each: NodeProto) -> None:
    each.input[0], each.input[1] = each.input[1], each.input[0]


def set_type(op_type: str) -> Callable[[NodeProto], None]:
    def change(each: NodeProto) -> None:
        each.op_type = op_type

    return change


NUMBERS = "numbers as exported"
ROWS = "stored rows"

ONNX = (
    Plant("codes", "a bit of the first row", numbers("words.codes", bit(0)), f"{ROWS}: codes differ at row 0"),
    Plant("codes", "a bit of the last row", numbers("words.codes", bit(-1, 7)), f"{ROWS}: codes differ at row 299"),
    Plant("codes", "two rows exchanged", numbers("words.codes", swap(5, 6, 2)), f"{ROWS}: codes differ at row 5"),
    Plant("codes", "a bit of the padding row", numbers("words.codes", bit(1)), f"{ROWS}: codes differ at row 0"),
    Plant("values", "the lowest bit", numbers("words.values", bit(4 * 77)), f"{ROWS}: values differ"),
    Plant("values", "a sign", numbers("words.values", bit(4 * 30 + 3, 7)), f"{ROWS}: values differ"),
    Plant("values", "two groups exchanged", numbers("words.values", swap(0, 1, 256)), f"{ROWS}: values differ"),
    Plant("dense weight", "the lowest bit", numbers("val_0", bit(4 * 7)), f"{NUMBERS}: val_0[2, 1]"),
    Plant("dense weight", "the lowest bit of the last", numbers("val_0", bit(-4)), f"{NUMBERS}: val_0[15, 2]"),
    Plant("dense weight", "two rows exchanged", numbers("val_0", swap(0, 15, 12)), f"{NUMBERS}: val_0[0, 0]"),
    Plant("bias", "the lowest bit", numbers("tags.bias", bit(0)), f"{NUMBERS}: tags.bias[0]"),
    Plant("bias", "the lowest bit of the last", numbers("tags.bias", bit(8)), f"{NUMBERS}: tags.bias[2]"),
    Plant("bias", "two exchanged", numbers("tags.bias", swap(0, 1, 4)), f"{NUMBERS}: tags.bias[0]"),
    Plant("attribute", "padding_idx", attribute("padding_idx", 1), "padding_idx: got 1, expected 0"),
    Plant("attribute", "no padding", attribute("padding_idx", -1), "padding_idx: got -1, expected 0"),
    Plant("attribute", "num_codes", attribute("num_codes", 1), "num_codes: got 17, expected 16"),
    Plant("attribute", "format_version", attribute("format_version", 1), "format_version: got 2, expected 1"),
    *(
        Plant("body", f"constant {index}", body_constant(index), "bodies as exported: DPQEmbedding, node")
        for index in (0, 1, 3, 4, 7, 10, 11, 13, 14)
    ),
    Plant(
        "body",
        "another operator",
        body(lambda each: set_type("Sub")(next(n for n in each.node if n.op_type == "Add"))),
        "got Sub",
    ),
    Plant(
        "body",
        "inputs exchanged",
        body(lambda each: flip_inputs(next(n for n in each.node if n.op_type == "Add"))),
        "got inputs",
    ),
    Plant(
        "body",
        "a node more",
        body(lambda each: each.node.append(helper.make_node("Abs", ["num_rows"], ["unused"]))),
        "from Abs -> unused on",
    ),
    Plant(
        "body",
        "an unknown body more",
        edit(
            lambda model: (
                model.functions.add(
                    name="Other",
                    domain="edge_embed",
                    output=["y"],
                    input=["x"],
                    node=[helper.make_node("Abs", ["x"], ["y"])],
                    opset_import=[helper.make_opsetid("", 18)],
                )
                and None
            )
        ),
        "edge_embed.Other",
    ),
    Plant("body", "none", edit(lambda model: model.ClearField("functions")), "DPQEmbedding is missing"),
    Plant("manifest", "another padding row", manifest(lambda table: table.update(padding_idx=3)), "manifest"),
    Plant("manifest", "another hash", manifest(lambda table: table["sha256"].update(codes="0" * 64)), "manifest"),
    Plant("manifest", "none", drop("edge_embed.tables"), "manifest: it is missing"),
    Plant(
        "vocabulary",
        "two tokens exchanged",
        text("edge_embed.vocabulary", lambda value: value.replace('"w1"', '"w2"', 1)),
        "edge_embed.vocabulary: differs at character",
    ),
    Plant("vocabulary", "none", drop("edge_embed.vocabulary"), "edge_embed.vocabulary is missing"),
    Plant(
        "metadata",
        "another label",
        text("edge_embed.metadata", lambda value: value.replace("NN", "VB")),
        "edge_embed.metadata: differs at character",
    ),
    Plant("opset", "an earlier one", opset("", 17), "the ONNX checker refuses it"),
    Plant("opset", "a later one", opset("", 19), "operator set ai.onnx: got 19, expected 18"),
    Plant(
        "version",
        "of the format",
        edit(lambda model: setattr(model, "ir_version", 9)),
        "IR version: got 9, expected 10",
    ),
    Plant("inputs", "a weight among them", listed_weight("tags.bias"), "inputs: got ids (int64, rank 2), tags.bias"),
    Plant("inputs", "another name of a size", size("ids", 0, "z"), "input ids, dimension 0: got z, expected batch"),
    Plant(
        "outputs", "a size fixed alone", size("logits", 1, 7), "output logits, dimension 1: got 7, expected sequence"
    ),
    Plant("outputs", "another size", size("logits", 2, 4), "the ONNX checker refuses it"),
    Plant("nodes", "one more that does nothing", append("Identity"), "Add -> logits: got Identity"),
    Plant("nodes", "one more that may do something", append("Abs"), "Add -> logits: got Abs"),
    Plant("nodes", "one more that nothing reads", edit(dead_node), "Abs -> unused is unexpected"),
    Plant("nodes", "the bias left out", edit(remove_bias), "MatMul -> val_1 is missing"),
    Plant("nodes", "another operator", node("Add", set_type("Sub")), "Add -> logits: got Sub"),
    Plant("nodes", "inputs of a sum exchanged", node("Add", flip_inputs), "Add -> logits: got inputs"),
    Plant(
        "tensors",
        "one more",
        edit(lambda model: model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "planted"))),
        "unexpected tensors: planted",
    ),
    Plant("tensors", "another name for the output", rename("logits", "logit"), "logits"),
    Plant("file", "cut", cut, "damaged or not an ONNX model"),
    Plant(
        "external data", "the lowest bit of a weight", external("val_0", 4 * 99), f"{NUMBERS}: val_0[0, 99]", "outside"
    ),
    Plant(
        "external data",
        "a bit of a code",
        external("words.codes", 2 * 41),
        f"{ROWS}: codes differ at row 41",
        "outside",
    ),
    Plant("external data", "another offset", place("words.codes", "offset", 64), f"{ROWS}: codes differ", "outside"),
    Plant("external data", "a shorter length", place("words.codes", "length", -4), "bytes of external data", "outside"),
    Plant("row offsets", "a row begins later", numbers("words.row_offsets", bit(4 * 9)), f"{ROWS}", "ant"),
    Plant("anchor ids", "another anchor", numbers("words.anchor_ids", bit(3)), f"{ROWS}", "ant"),
    Plant("anchors", "the lowest bit", numbers("words.anchors", bit(4 * 11)), f"{ROWS}", "ant"),
    Plant("weights", "the lowest bit", numbers("words.weights", bit(0)), f"{ROWS}", "ant"),
    Plant("cores", "the lowest bit of the first", numbers("words.core_0", bit(0)), f"{ROWS}", "tt"),
    Plant("cores", "the lowest bit of the last", numbers("words.core_2", bit(-4)), f"{ROWS}", "tt"),
)
