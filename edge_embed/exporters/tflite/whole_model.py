"""Whole models in TFLite: the body, converted by litert-torch, with tables inserted; one subgraph per signature.

A converted body has fixed sizes, so each signature has one size of every dynamic dimension. All signatures share the
weights and the tables. Inputs have the types of the model; integers inside the body are int32.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.converted_body import convert_body
from edge_embed.exporters.tflite.cut_tables import CutProgram, Value, cut_program
from edge_embed.exporters.tflite.flatbuffer import ModelBuilder, operator_names
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.portable import not_portable
from edge_embed.exporters.tflite.splice import connect, in_order, take_over, tensor_at
from edge_embed.exporters.tflite.table_uses import Layout, add_use
from edge_embed.exporters.tflite.translated import Translated
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import Sizes, dtype_name


def translate_whole(
    lowered: LoweredProgram, layouts: Mapping[str, Layout], signatures: Mapping[str, Sizes]
) -> Translated:
    """Translate a program, with a subgraph for each signature.

    Args:
        lowered: the program.
        layouts: layouts of its tables.
        signatures: sizes of all dynamic dimensions, by the name of the signature.

    Raises:
        BadInputError: an operator has no equivalent in TFLite, or the program does not run at a size.
        EdgeEmbedError: litert-torch is not installed.
    """
    cut, builder, parts = cut_program(lowered), ModelBuilder(), list[_Part]()
    for name, (subgraph, numbers) in _subgraphs(cut, builder, signatures).items():
        part = _Part(cut, builder, subgraph, numbers, f"{name}/" if len(signatures) > 1 else "")
        part.add_inputs(signatures[name])
        part.add_tables(layouts)
        part.graph.end(name, part.inputs, part.outputs)
        parts.append(part)
    hashes = {tensor: digest for part in parts for tensor, digest in part.graph.hashes.items()}
    return Translated(builder, hashes, [line for part in parts for line in part.delegate], _shapes(parts), signatures)


def _subgraphs(
    cut: CutProgram, builder: ModelBuilder, signatures: Mapping[str, Sizes]
) -> dict[str, tuple[Any, dict[Value, int]]]:
    """Return the converted body for each signature, and its tensors for inputs, given values and made ones."""
    if cut.body is None:
        return {name: (None, {}) for name in signatures}
    model = builder.schema.ModelT.InitFromPackedBuf(convert_body(cut, cut.body, signatures), 0)
    _check_operators(model)
    taken, values = take_over(builder, model), [*cut.inputs, *cut.given, *cut.made]
    found = {}
    for signature in model.signatureDefs:
        numbers = [*in_order(signature.inputs), *in_order(signature.outputs)]
        found[signature.signatureKey.decode()] = taken[signature.subgraphIndex], dict(zip(values, numbers, strict=True))
    return found


def _check_operators(model: Any) -> None:
    codes = (max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes)
    if found := not_portable(operator_names()[code] for code in codes):
        raise BadInputError(
            f"the model requires operators {', '.join(found)}, which not every TFLite runtime supports: use "
            "--target onnx"
        )


class _Part:
    """One subgraph, with its tensors by their values."""

    def __init__(
        self, cut: CutProgram, builder: ModelBuilder, subgraph: Any, numbers: Mapping[Value, int], prefix: str
    ) -> None:
        self.graph, self.delegate = Graph(builder, subgraph, prefix), list[str | None]()
        self._cut, self._prefix = cut, prefix
        self._subgraph, self._numbers = subgraph, numbers
        self._tensors: dict[Value, Tensor] = {}
        self._named_tensors: dict[int, Tensor] = {}
        self._made: dict[int, Tensor] = {}  # replaces tensors of the body: by results of tables, or another type
        for tensor in () if subgraph is None else subgraph.tensors:
            tensor.name = prefix.encode() + tensor.name

    def add_inputs(self, sizes: Sizes) -> None:
        """Give the inputs the names of the program; without a body, add them."""
        for value, declared in zip(self._cut.inputs, self._cut.lowered.program.inputs, strict=True):
            dtype, shape = dtype_name(declared.dtype), declared.sizes(sizes)
            number = self._numbers.get(value)
            if number is not None and tensor_at(self._subgraph, number).dtype == dtype:
                self._tensors[value] = self._named(value, declared.name)
                continue
            # The converter turns int64 into int32. Tables accept ids unchanged; other integers must not wrap unnoticed.
            self._tensors[value] = self.graph.input(declared.name, dtype, shape)
            if number is not None and self._is_read(number):
                self._made[number] = self.graph.narrowed(self._tensors[value])

    def add_tables(self, layouts: Mapping[str, Layout]) -> None:
        """Add all uses of tables, and connect their results to the body."""
        for cut in self._cut.cuts:
            lowered, leading = self._cut.lowered, [self._argument(given) for given in cut.leading]
            packed, layout = lowered.tables[cut.table], layouts[cut.table].name
            results, line = add_use(self.graph, cut.call.use, cut.table, packed, layout, leading, lowered.id_check)
            self.delegate.append(line)
            for value, result in zip(cut.results, results, strict=True):
                if value is None:
                    continue
                self._tensors[value] = result
                if value in self._numbers:
                    self._made[self._numbers[value]] = result
        if self._subgraph is not None:
            connect(self._subgraph, {number: made.index for number, made in self._made.items()})

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Return the inputs by name."""
        names = [declared.name for declared in self._cut.lowered.program.inputs]
        return dict(zip(names, map(self._tensor, self._cut.inputs), strict=True))

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Return the outputs by name."""
        return dict(zip(self._cut.lowered.program.output_names, map(self._tensor, self._cut.outputs), strict=True))

    def _is_read(self, number: int) -> bool:
        """Return whether the body computes with an input, or returns it: otherwise a cast to int32 has no use."""
        given_back = list(self._numbers.values()).count(number) > 1
        return given_back or any(number in operator.inputs for operator in self._subgraph.operators)

    def _argument(self, given: Any) -> Any:
        if isinstance(given, Value):
            return self._tensor(given)
        return self.graph.constant(given.numpy(), "float32") if isinstance(given, torch.Tensor) else given

    def _tensor(self, value: Value) -> Tensor:
        if value not in self._tensors:
            self._tensors[value] = self._named(value, self._prefix + value.name)
        return self._tensors[value]

    def _named(self, value: Value, name: str) -> Tensor:
        """Return the tensor of a value, with a name that the manifest of the delegate can hold.

        Two values may share it: the converter omits additions of zero.
        """
        number = self._numbers[value]
        if number in self._made:
            return self._made[number]
        if number not in self._named_tensors:
            self._subgraph.tensors[number].name = name.encode()
            self._named_tensors[number] = tensor_at(self._subgraph, number)
        return self._named_tensors[number]


def _shapes(parts: Iterable[_Part]) -> dict[str, list[str]]:
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for part in parts:
        for name, tensor in [*part.inputs.items(), *part.outputs.items()]:
            shapes.setdefault(name, []).append(tensor.shape)
    return {name: [_spelled(sizes) for sizes in zip(*found, strict=True)] for name, found in shapes.items()}


def _spelled(sizes: Iterable[int]) -> str:
    return " or ".join(map(str, dict.fromkeys(sizes)))
