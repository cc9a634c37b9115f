"""Conversion of the body of a program, without its tables, by litert-torch: a signature per size, shared weights."""

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.exporters.tflite.cut_tables import CutProgram
from edge_embed.exporters.tflite.entmax import REPLACEMENTS
from edge_embed.exporters.tflite.id_check import dense_lookups
from edge_embed.exporters.tflite.signatures import not_at
from edge_embed.lowering.id_check import IdCheck
from edge_embed.ops import recurrent
from edge_embed.program.program import ProgramInterpreter, ProgramModule, Sizes
from edge_embed.quiet import silence

_LOOKED_UP = (torch.float32, torch.int8)
# A message of the converter's compiler, without the place in the source of the model, which may be on either side.
_FAILURE = re.compile(r"(?:^|\s)error: (?:.*:\d+:\d+\)*: )?(.+)")


def convert_body(cut: CutProgram, body: ProgramModule, signatures: Mapping[str, Sizes]) -> bytes:
    """Convert the body to TFLite: in each signature ``args_<i>`` are inputs and given values, ``output_<i>`` made ones.

    Args:
        cut: the program.
        body: the body of the program; its recurrent layers are unrolled and its dense bags expressed in place.
        signatures: sizes of the dynamic dimensions, by the name of the signature.

    Raises:
        BadInputError: the converter has no equivalent for an operator, or the program does not run at a size.
        EdgeEmbedError: litert-torch is not installed.
    """
    converter: Any = _load_converter()
    _check_dense_tables(body)
    _replace_operators(body, cut.lowered.id_check)
    for name, sizes in signatures.items():
        converter = converter.signature(name, body, sample_arguments(cut, sizes))
    try:
        with silence(), TemporaryDirectory() as folder:
            path = Path(folder) / "body.tflite"
            converter.convert().export(str(path))
            return path.read_bytes()
    except Exception as error:  # any exception of the converter
        reason = _FAILURE.search(str(error))
        why = f"{reason[1]:.300}" if reason else one_line(error)
        raise BadInputError(f"the model cannot be expressed in TFLite: {why}; use --target onnx") from error


def sample_arguments(cut: CutProgram, sizes: Sizes) -> tuple[Tensor, ...]:
    """Return zeros of the types and sizes of the inputs, and of the tables' results for inputs of those sizes.

    Raises:
        BadInputError: the program does not run at these sizes.
    """
    program = cut.lowered.program
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = [torch.zeros(declared.sizes(sizes), dtype=declared.dtype) for declared in program.inputs]
            values = _GivenValues(cut)
            values.run(*inputs)
    except DynamicOutputShapeException as error:
        raise BadInputError(
            f"the operator {error.func} returns a tensor whose size depends on values, which TFLite does not "
            "support: remove it from the model, or use --target onnx"
        ) from error
    except Exception as error:  # any exception of its operators
        raise not_at(sizes, error) from error
    fakes = [*inputs, *(values.found[value.name] for value in cut.given)]
    return tuple(torch.zeros(fake.shape, dtype=fake.dtype) for fake in fakes)


class _GivenValues(ProgramInterpreter):
    """Runs the whole program and keeps the results of its tables."""

    def __init__(self, cut: CutProgram) -> None:
        super().__init__(cut.lowered.program.module)
        self._names = {value.name for value in cut.given}
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        result = super().run_node(n)
        if n.name in self._names:
            self.found[n.name] = result
        return result


def _check_dense_tables(body: ProgramModule) -> None:
    """Refuse dense tables whose type the converter cannot look up; its own message names no table."""
    for node in body.graph.nodes:
        if node.target is not torch.ops.aten.embedding.default or node.args[0].op != "get_attr":
            continue
        name = node.args[0].target
        found = body.weight(name).dtype
        if found not in _LOOKED_UP:
            got = str(found).removeprefix("torch.")
            remedy = "convert it in the model, such as with float(), or use --target onnx"
            raise BadInputError(f"table {name}: got {got}, expected float32 or int8 for lookups in TFLite: {remedy}")


def _replace_operators(body: ProgramModule, id_check: IdCheck | None) -> None:
    """Unroll recurrent layers, as every length is fixed here, express sparse activations and bags, and check ids."""
    plain = {operator: getattr(torch.ops.aten, name).input for name, operator in recurrent.OPERATORS.items()}
    replacements = plain | REPLACEMENTS | dense_lookups(id_check)
    for node in body.graph.nodes:
        node.target = replacements.get(node.target, node.target)


def _load_converter() -> Any:
    try:
        with silence():
            import litert_torch  # noqa: PLC0415
    except ImportError as error:
        raise EdgeEmbedError(
            "a model that contains more than lookups and bags requires the package litert-torch, "
            'which is not installed: pip install "edge-embed[tflite-models]", or use --target onnx'
        ) from error
    return litert_torch
