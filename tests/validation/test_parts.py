"""Every byte of the files is counted once, in its part."""

import numpy as np
import onnx
from onnx import numpy_helper

from edge_embed.exporters.onnx.names import VOCABULARY_KEY
from edge_embed.report.results.byte_parts import by_name, by_table
from edge_embed.validation.byte_parts import file_parts
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.tables import Table


def parts_of(exported):
    tables = [Table(name, packed) for name, packed in exported.lowered.tables.items()]
    return file_parts(ExportedModel(exported.path), tables)


def test_parts_add_up_to_files(exported):
    parts = parts_of(exported)
    assert sum(part.bytes for part in parts) == sum(file.stat().st_size for file in exported.path.parent.iterdir())
    assert all(part.bytes >= 0 for part in parts)


def test_parts_of_tables_are_their_tensors(exported):
    parts = {(part.table, part.name): part.bytes for part in parts_of(exported)}
    for name, packed in exported.lowered.tables.items():
        for tensor, array in packed.tensors().items():
            assert parts[name, tensor] == array.nbytes
    tables = {name: packed.nbytes for name, packed in exported.lowered.tables.items()}
    assert by_table(parts_of(exported)) == tables


def test_parts_match_dense_weights_bodies_vocabulary_and_metadata(exported):
    before = by_name(parts_of(exported))
    proto = onnx.load(exported.path, load_external_data=False)
    tables = tuple(exported.lowered.tables)
    dense = [tensor for tensor in proto.graph.initializer if not tensor.name.startswith(tables)]
    dense += [attribute.t for node in proto.graph.node for attribute in node.attribute if attribute.HasField("t")]
    assert before["dense"] == sum(numpy_helper.to_array(tensor, str(exported.path.parent)).nbytes for tensor in dense)
    assert before["bodies"] == sum(body.ByteSize() for body in proto.functions)
    assert (before["padding"] > 0) == exported.data.exists()

    def add(model):
        model.metadata_props.add(key=VOCABULARY_KEY, value='["ä"]')
        model.metadata_props.add(key="mine", value="x" * 100)

    exported.edit(add)
    after = by_name(parts_of(exported))
    assert after["vocabulary"] == len(VOCABULARY_KEY) + 6
    assert after["metadata"] == 104
    del before["vocabulary"], before["metadata"], before["graph"]
    assert {name: after[name] for name in before} == before


def test_parts_count_typed_fields_and_shared_ranges_once(external):
    numbers = onnx.helper.make_tensor("typed", onnx.TensorProto.INT64, [3], [1, 2, 3])

    def change(model):
        model.graph.initializer.append(numbers)
        twice = onnx.TensorProto()
        twice.CopyFrom(next(tensor for tensor in model.graph.initializer if tensor.external_data))
        twice.name = "twice"
        model.graph.initializer.append(twice)

    before = parts_of(external)
    external.edit(change)
    after = parts_of(external)
    assert sum(part.bytes for part in after) == sum(file.stat().st_size for file in external.path.parent.iterdir())
    assert sum(by_table(after).values()) + by_name(after)["dense"] - numbers.ByteSize() == (
        sum(by_table(before).values()) + by_name(before)["dense"]
    )


def test_quantile_of_errors_lies_between_mean_and_maximum(inline):
    for path in inline.validate().model.paths[1:]:
        for output in path.outputs:
            assert output.quantile_abs_error is not None
            assert 0 <= output.mean_abs_error <= output.quantile_abs_error <= output.max_abs_error
            assert np.isfinite(output.max_abs_error)
