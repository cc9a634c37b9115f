"""A compressed ONNX file beside the file it was made from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import FIDELITY_KEY, MANIFEST_KEY
from edge_embed.validation.pair.open import open_pair
from tests.exporters.onnx.foreign_models import COLUMNS, ROWS, look_up, model, saved, table
from tests.validation.pair.models import changed, classifier, compressed, flip, node, pair, tensor, validate

pytestmark = pytest.mark.usefixtures("_without_processes")
Change = Callable[[onnx.ModelProto], object]


def test_pair_passes_and_reports_rows_changes_and_sizes(files: tuple[Path, Path]) -> None:
    original, small = files
    report = validate(original, small)
    assert (report.exit_code, report.failures(), report.original) == (0, [], str(original))
    (words,) = report.tables
    assert words.fidelity is not None
    promised = edge_embed.compress(
        original, "dpq", num_codes=16, num_groups=4, output=small.with_name("again.onnx"), force=True
    ).report.tables[0]
    assert promised.fidelity is not None
    assert words.fidelity.mean_cosine == pytest.approx(promised.fidelity.mean_cosine)
    assert words.fidelity.worst == promised.fidelity.worst
    assert [path.status for path in report.model.paths] == ["passed"] * 4
    assert "negative ids, which count from the end" in report.model.cases
    logits, best = report.model.changes
    assert logits.divergence is not None
    assert 0 < logits.divergence < 1
    assert logits.relative_error is not None
    assert 0 < logits.relative_error < 0.5
    assert best.relative_error is None
    assert best.equal is not None
    assert report.sizes.original is not None
    assert report.sizes.original.on_disk == original.stat().st_size > report.sizes.on_disk
    json.dumps(report.to_json(), allow_nan=False)


def test_latency_is_measured_beside_original(files: tuple[Path, Path]) -> None:
    report = validate(*files, iterations=2, warmup=0)
    assert {found.peer for found in report.latency.results if found.subject == "model"} == {"portable body", "original"}


def _other_bias(made: onnx.ModelProto) -> None:
    flip(tensor(made, "bias"))


def _other_constant(made: onnx.ModelProto) -> None:
    flip(node(made, "shift").attribute[0].t)


def _other_attribute(made: onnx.ModelProto) -> None:
    next(item for item in node(made, "head").attribute if item.name == "alpha").f = 1.5


def _swapped_inputs(made: onnx.ModelProto) -> None:
    inputs = node(made, "add").input
    inputs[0], inputs[1] = inputs[1], inputs[0]


def _without_an_output(made: onnx.ModelProto) -> None:
    del made.graph.output[1:]


def _another_producer(made: onnx.ModelProto) -> None:
    made.producer_name = "somebody"


def _another_name(made: onnx.ModelProto) -> None:
    node(made, "add").name = "plus"


def _one_more_node(made: onnx.ModelProto) -> None:
    made.graph.node.append(helper.make_node("Identity", ["scores"], ["more"]))


def _one_more_constant(made: onnx.ModelProto) -> None:
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1]), "more"))


def _a_larger_input(made: onnx.ModelProto) -> None:
    made.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "another"


def _a_newer_operator_set(made: onnx.ModelProto) -> None:
    for item in made.opset_import:
        item.version = 19 if item.domain == "" else item.version
    for function in made.functions:
        for item in function.opset_import:
            item.version = 19 if item.domain == "" else item.version


def _another_body(made: onnx.ModelProto) -> None:
    (body,) = made.functions
    body.node.append(helper.make_node("Identity", [body.node[0].output[0]], ["unread"]))


def _a_number_too_many(made: onnx.ModelProto) -> None:
    (body,) = made.functions
    tensors = [item.t for node in body.node for item in node.attribute if item.HasField("t")]
    tensor = next(each for each in tensors if each.int32_data)
    tensor.int32_data.append(1)


def _no_negative_ids(made: onnx.ModelProto) -> None:
    """Pass the ids to the lookup without the branch for negative ones."""
    look = next(each for each in made.graph.node if each.op_type == "DPQEmbedding")
    look.input[0] = "ids"


def _another_code(made: onnx.ModelProto) -> None:
    flip(tensor(made, "words.codes"), 5)


def _another_value(made: onnx.ModelProto) -> None:
    flip(tensor(made, "words.values"), 2)


_STRUCTURE: dict[Change, str] = {
    _other_bias: "bias: byte 0",
    _other_constant: "shift",
    _other_attribute: "Gemm 'head'",
    _swapped_inputs: "Add 'add'",
    _without_an_output: "outputs: got logits, expected logits, best",
    _another_producer: "producer_name",
    _another_name: "plus",
    _one_more_node: "Identity -> more is unexpected",
    _one_more_constant: "more is unexpected",
    _a_larger_input: "input mask",
    _a_newer_operator_set: "operator set",
    _another_body: "edge_embed::DPQEmbedding",
    _a_number_too_many: "is not a valid tensor",
    _no_negative_ids: "DPQEmbedding",
}


@pytest.mark.parametrize("change", _STRUCTURE)
def test_structure_that_compress_does_not_write_is_named(files: tuple[Path, Path], change: Change) -> None:
    with open_pair(files[0], changed(files[1], change)) as (program, _):
        failed = [check for check in program.pair.structure if check.status == "failed"]
    assert failed
    assert _STRUCTURE[change] in " ".join(check.detail for check in failed)


@pytest.mark.parametrize("change", [_other_bias, _without_an_output, _another_code, _another_value])
def test_changed_file_exits_with_3(files: tuple[Path, Path], change: Change) -> None:
    report = validate(files[0], changed(files[1], change))
    assert report.exit_code == 3


@pytest.mark.parametrize("change", [_another_code, _another_value])
def test_packed_tensor_with_flipped_bit_differs_from_its_hash(files: tuple[Path, Path], change: Change) -> None:
    report = validate(files[0], changed(files[1], change))
    assert any("manifest" in failure for failure in report.failures())


def test_table_with_other_rows_differs_from_compress_report(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The model is the same except for its table: everything else agrees, hashes too."""
    other = classifier()
    tensor(other, "words.weight").CopyFrom(onnx.numpy_helper.from_array(table(seed=9), "words.weight"))
    report = validate(saved(other, tmp_path), files[1])
    assert report.exit_code == 3
    assert any("rows as compress reported them" in failure for failure in report.failures())


def test_file_without_report_of_rows_is_measured(files: tuple[Path, Path]) -> None:
    def forget(made: onnx.ModelProto) -> None:
        (item,) = (item for item in made.metadata_props if item.key == FIDELITY_KEY)
        made.metadata_props.remove(item)

    report = validate(files[0], changed(files[1], forget))
    assert report.exit_code == 0
    assert report.tables[0].fidelity is not None
    assert not report.complete


class TestWrongPairs:
    def test_pair_of_one_file_twice_is_refused(self, files: tuple[Path, Path]) -> None:
        with pytest.raises(BadInputError, match="is the same file"):
            validate(files[0], files[0])

    def test_pair_in_reverse_order_is_refused(self, files: tuple[Path, Path]) -> None:
        with pytest.raises(BadInputError, match="give the original, then the file"):
            validate(files[1], files[0])

    def test_pair_without_compressed_table_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        with pytest.raises(BadInputError, match="contains no other compressed tables than"):
            validate(files[0], saved(classifier(producer_version="2"), tmp_path))

    def test_pair_of_another_model_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        made = model([look_up("other")], {"other": table(50)}, {"rows": ["batch", "sequence", COLUMNS]})
        with pytest.raises(BadInputError, match=r"has no dense table in .*, which contains other \[50, 16\]"):
            validate(saved(made, tmp_path), files[1])

    def test_pair_without_manifest_is_refused(self, files: tuple[Path, Path]) -> None:
        def forget(made: onnx.ModelProto) -> None:
            (item,) = (item for item in made.metadata_props if item.key == MANIFEST_KEY)
            made.metadata_props.remove(item)

        with pytest.raises(BadInputError, match="contains no other compressed tables than"):
            validate(files[0], changed(files[1], forget))

    def test_pair_of_two_kinds_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        other = tmp_path / "model.tflite"
        other.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
        for one, two in ((files[0], other), (other, files[0])):
            with pytest.raises(BadInputError, match="has another format than"):
                validate(one, two)

    @pytest.mark.parametrize("name", ["none.onnx", "none.tflite"])
    def test_missing_file_is_named(self, files: tuple[Path, Path], tmp_path: Path, name: str) -> None:
        gone = tmp_path / name
        for one, two in ((gone, files[1]), (gone, gone)):
            with pytest.raises(BadInputError, match=rf"{name}: there is no such file, expected an original file"):
                validate(one, two)

    def test_saved_model_in_second_place_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        ids = torch.tensor([[1, 2]])
        model = edge_embed.save(edge_embed.TTEmbedding(20, 8, rank=2), tmp_path / "model.pt", ids)
        with pytest.raises(BadInputError, match=r"model\.pt: is a saved model .* after the saved model"):
            validate(files[1], model)

    def test_invalid_report_of_rows_is_refused(self, files: tuple[Path, Path]) -> None:
        def garble(made: onnx.ModelProto) -> None:
            next(item for item in made.metadata_props if item.key == FIDELITY_KEY).value = '{"words":{"table":1e999}}'

        with pytest.raises(BadInputError, match="recorded fidelity"):
            validate(files[0], changed(files[1], garble))


def _tied(dtype: Any = np.float32) -> onnx.ModelProto:
    nodes = [
        look_up(),
        helper.make_node("Transpose", ["words.weight"], ["turned"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["rows", "turned"], ["logits"], "head"),
    ]
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    return model(nodes, {"words.weight": table(dtype=dtype)}, {"logits": (kind, ["batch", "sequence", ROWS])})


def _two_tables() -> onnx.ModelProto:
    nodes = [
        look_up(),
        look_up("places", "ids_2", "more"),
        helper.make_node("Add", ["rows", "more"], ["result"], "add"),
    ]
    return model(
        nodes,
        {"words.weight": table(), "places": table(40, seed=1)},
        {"result": ["batch", "sequence", COLUMNS]},
        inputs={"ids": ["batch", "sequence"], "ids_2": ["batch", "sequence"]},
    )


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (_tied(), {"method": "rows", "bits": 8}),
        (_tied(np.float16), {"method": "rows", "bits": 8}),
        (_tied(), {"method": "opq", "num_codes": 16, "num_groups": 4}),
        (_two_tables(), {"method": "tt", "rank": 4}),
        (classifier(opset=13, ir_version=7), {"method": "ant", "num_anchors": 8, "nonzeros": 2}),
    ],
    ids=["tied", "float16", "rotated", "several", "opset 13"],
)
def test_pairs_of_every_kind_pass(made: onnx.ModelProto, wanted: dict[str, Any], tmp_path: Path) -> None:
    report = validate(*pair(tmp_path, made, **wanted))
    assert report.failures() == []
    assert report.exit_code == 0


def test_weights_may_lie_beside_original(tmp_path: Path) -> None:
    original = tmp_path / "original.onnx"
    onnx.save(classifier(), original, save_as_external_data=True, location="weights.bin", size_threshold=100)
    report = validate(original, compressed(original))
    assert report.failures() == []
    assert report.sizes.original is not None
    assert set(report.sizes.original.files) == {"original.onnx", "weights.bin"}


def test_table_compressed_before_is_not_compared_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    first = saved(_two_tables(), tmp_path, "original.onnx")
    second = first.with_name("second.onnx")
    edge_embed.compress(first, "rows", bits=8, modules=["words"], output=first.with_name("small.onnx"))
    edge_embed.compress(first.with_name("small.onnx"), "rows", bits=4, modules=["places"], output=second)
    report = validate(first.with_name("small.onnx"), second)
    assert report.failures() == []
    assert [found.name for found in report.tables] == ["places"]
    assert validate(first, second).failures() == []


def test_report_with_counts_is_checked_where_counts_do_not_matter(tmp_path: Path) -> None:
    import torch

    original = saved(classifier(), tmp_path, "original.onnx")
    small = compressed(original, method="dpq", num_codes=16, num_groups=4, counts={"words": torch.arange(ROWS)})
    assert validate(original, small).failures() == []


def test_inputs_from_file_are_compared(files: tuple[Path, Path], tmp_path: Path) -> None:
    given = tmp_path / "inputs.npz"
    np.savez(given, **{"0/ids": np.array([[-1, 5, 299]]), "0/mask": np.ones((1, 3), np.float32)})
    report = validate(*files, inputs=given)
    assert report.exit_code == 0
    assert report.model.cases == ("case 0",)


def test_ids_out_of_range_in_given_inputs_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    given = tmp_path / "inputs.npz"
    np.savez(given, **{"0/ids": np.array([[ROWS]]), "0/mask": np.ones((1, 1), np.float32)})
    with pytest.raises(BadInputError, match="the model fails on these inputs"):
        validate(*files, inputs=given)
