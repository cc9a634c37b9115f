"""Tools that users run on an exported file, with the usual call of each, and the models of these tests."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import compose, helper, shape_inference, version_converter
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort
from onnxruntime.tools.onnx_model_utils import fix_output_shapes, make_input_shape_fixed
from torch import nn

import edge_embed
from edge_embed.validation.options import DEFAULT_RTOL

ROWS, DIM = 2000, 64

# Largest change of a score, relative to the largest score. float16 rounds to 2^-11 of a number, and a score is a sum of
# some hundred such numbers of either sign. Integer quantisation has no bound: 9 % were measured for a GRU with 8-bit
# weights and inputs, 2.4 % for 4-bit weights in blocks of 32. A wrong row would change every score.
HALF = 4 * 2.0**-11
EIGHT_BITS, FOUR_BITS = 0.15, 0.05


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(ROWS, DIM, 16, 16, variant="vq", padding_idx=0)
        self.encoder = nn.GRU(DIM, 128, batch_first=True)
        self.tags = nn.Linear(128, 12)

    def forward(self, ids):
        return self.tags(self.encoder(self.words(ids))[0])


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(ROWS, DIM, 16, 16, variant="vq")
        self.encoder = nn.LSTM(DIM, DIM, batch_first=True)
        self.output = edge_embed.TiedOutput(self.words, bias=True)

    def forward(self, ids):
        return self.output(self.encoder(self.words(ids))[0])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.ANTEmbeddingBag(ROWS, DIM, num_anchors=10, mode="mean", padding_idx=0)
        self.classes = nn.Linear(DIM, 4)

    def forward(self, ids):
        return self.classes(self.words(ids))


class Suggestions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.TTEmbedding(ROWS, DIM, rank=8)
        self.encoder = nn.LSTM(DIM, DIM, batch_first=True)
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids):
        return self.output.topk(self.encoder(self.words(ids))[0][:, -1], 3)


MODELS = {"dpq": Tagger, "dpq output layer": Language, "ant bag": Classifier, "tt output layer": Suggestions}


def tool(package: str) -> Any:
    """Import the package of a tool, or skip the test."""
    return pytest.importorskip(package, reason=f"{package} is missing: pip install 'edge-embed[dev]'")


# Each function reads an exported file and writes another file.


class Calibration(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._ids = iter([{"ids": rng.integers(0, ROWS, (1, 5))} for _ in range(4)])

    def get_next(self) -> Any:
        return next(self._ids, None)


def static(source: Path, target: Path) -> None:
    quantize_static(source, target, Calibration())


def four_bits(source: Path, target: Path) -> None:
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


def half(package: str, source: Path, target: Path) -> None:
    float16 = tool(package)
    blocked = [*float16.DEFAULT_OP_BLOCK_LIST, "Transpose"]
    converted = float16.convert_float_to_float16(onnx.load(source), keep_io_types=True, op_block_list=blocked)
    onnx.save(converted, target)


def simplify(source: Path, target: Path) -> None:
    simplified, same = tool("onnxsim").simplify(str(source))
    assert same
    onnx.save(simplified, target)


def slim(source: Path, target: Path) -> None:
    onnx.save(tool("onnxslim").slim(onnx.load(source)), target)


def infer_shapes(source: Path, target: Path) -> None:
    onnx.save(shape_inference.infer_shapes(onnx.load(source), strict_mode=True, data_prop=True), target)


def fix_shape(source: Path, target: Path) -> None:
    """Fix the shapes as ``python -m onnxruntime.tools.make_dynamic_shape_fixed`` does."""
    model = onnx.load(source)
    make_input_shape_fixed(model.graph, "ids", [1, 4])
    fix_output_shapes(model)
    onnx.save(model, target)


def extract(source: Path, target: Path) -> None:
    onnx.utils.extract_model(source, target, ["ids"], [onnx.load(source).graph.output[0].name])


def outside(source: Path, target: Path) -> None:
    onnx.save(onnx.load(source), target, save_as_external_data=True, location=f"{target.name}.data")


def merge(source: Path, target: Path) -> None:
    ours = compose.add_prefix(onnx.load(source), "ours_", rename_functions=False)
    result = ours.graph.output[0].name
    rank = len(ours.graph.output[0].type.tensor_type.shape.dim)
    ports = [helper.make_tensor_value_info(name, 1, [None] * rank) for name in ("given", "same")]
    graph = helper.make_graph([helper.make_node("Identity", ["given"], ["same"])], "other", ports[:1], ports[1:])
    other = helper.make_model(graph, opset_imports=ours.opset_import[:1], ir_version=ours.ir_version)
    onnx.save(compose.merge_models(ours, other, io_map=[(result, "given")]), target)


def optimize_graph(level: int, source: Path, target: Path) -> None:
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(str(source), opt_level=level).save_model_to_file(str(target))


def convert_version(source: Path, target: Path) -> None:
    onnx.save(version_converter.convert_version(onnx.load(source), 21), target)


def script(step: Callable[..., Any], source: Path, target: Path) -> None:
    import onnx_ir

    model = onnx_ir.load(source)
    step(model)
    onnx_ir.save(model, target)


def script_optimizer(source: Path, target: Path) -> None:
    from onnxscript import optimizer

    script(optimizer.optimize, source, target)


def script_version(source: Path, target: Path) -> None:
    from onnxscript import version_converter

    script(partial(version_converter.convert_version, target_version=21), source, target)


def save_optimized(library: bool, source: Path, target: Path) -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(target)
    edge_embed.create_session(source, portable=not library, options=options)


def to_ort(library: bool, source: Path, target: Path) -> None:
    copy = target.with_name("model.onnx")
    shutil.copy(source, copy)
    convert_onnx_models_to_ort(
        copy,
        optimization_styles=[OptimizationStyle.Fixed],
        custom_op_library_path=edge_embed.get_library_path() if library else None,
    )
    copy.with_suffix(".ort").rename(target)


@dataclass(frozen=True)
class Tool:
    """The tool of one row of the guide's table.

    Attributes:
        run: Reads a file and writes a file.
        change: Largest change of a score, relative to the largest score.
        verified: Whether ``inspect --verify`` still finds the tables as they were exported.
        output_layers: Whether models with an output layer survive the tool.
    """

    run: Callable[[Path, Path], object]
    change: float = DEFAULT_RTOL
    verified: bool = True
    output_layers: bool = True


# Keys are the first cells of the guide's rows.
TOOLS = {
    "`quantize_dynamic`, `quantize_static`, `MatMulNBitsQuantizer` of onnxruntime": [
        Tool(quantize_dynamic, EIGHT_BITS),
        Tool(static, EIGHT_BITS),
        Tool(four_bits, FOUR_BITS),
    ],
    "`quant_pre_process` of onnxruntime": [Tool(quant_pre_process, output_layers=False)],
    "the same with `skip_optimization=True`": [Tool(partial(quant_pre_process, skip_optimization=True))],
    "`onnxsim`, `onnxslim`": [Tool(simplify), Tool(slim)],
    "`convert_float_to_float16` of onnxconverter-common, onnxruntime.transformers": [
        Tool(partial(half, "onnxconverter_common.float16"), HALF, verified=False),
        Tool(partial(half, "onnxruntime.transformers.float16"), HALF, verified=False),
    ],
    "`onnx.shape_inference`, `make_dynamic_shape_fixed`": [Tool(infer_shapes), Tool(fix_shape)],
    "`onnxruntime.transformers.optimizer` with `opt_level=0`": [Tool(partial(optimize_graph, 0))],
    "`onnx.save` with `save_as_external_data`": [Tool(outside)],
    "`onnx.utils.extract_model`": [Tool(extract, verified=False)],
    "`onnx.compose.merge_models`, after `add_prefix` with `rename_functions=False`": [Tool(merge, verified=False)],
    "`onnx.version_converter`": [Tool(convert_version)],
    "`onnxscript.optimizer`, `onnxscript.version_converter`": [Tool(script_optimizer), Tool(script_version)],
    "`optimized_model_filepath` or `convert_onnx_models_to_ort`, library registered": [
        Tool(partial(save_optimized, True)),
        Tool(partial(to_ort, True)),
    ],
    "the same without the library": [
        Tool(partial(save_optimized, False), output_layers=False),
        Tool(partial(to_ort, False)),
    ],
}
