"""Reads a saved program without evaluating anything from the file.

``torch.export.load`` runs code from a hostile archive: it evaluates size expressions and guards, imports
the types its tree specs name, and unpickles weights and examples. This reader takes the graph from
``models/model.json`` operator by operator (`edge_embed.program.operators`), weights as views of the mapped
file, and examples through ``torch.load(weights_only=True)``. Size expressions only tell that a dimension
is dynamic; guards and tree specs are not looked at.
"""

import io
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from edge_embed.errors import BadInputError
from edge_embed.program import operators
from edge_embed.program.archive import DTYPES, Archive
from edge_embed.program.program import Program, ProgramInput, ProgramModule, dimension_names

EXTRA = "edge_embed.json"
EXTRA_VERSION = 1
_SCHEMA_MAJOR = 8
_LAYOUTS = {7: torch.strided}
_MEMORY_FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 4: torch.preserve_format}
_LITERALS = ("as_none", "as_int", "as_ints", "as_bool", "as_bools", "as_string", "as_int_lists")
_MALFORMED = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, RecursionError)


def read_program(path: Path) -> Program:
    """Read a ``model.pt`` written by `edge_embed.save`, or a ``.pt2`` made elsewhere.

    Raises:
        BadInputError: if the file is damaged, or uses something that cannot be read safely; the
            offending operator or feature is named.
    """
    archive = Archive(path)
    try:
        return _Reader(archive).program()
    except BadInputError:
        raise
    except _MALFORMED as error:
        raise archive.damaged(f"{type(error).__name__} in its description: {error}") from error


class _Reader:
    """One pass over the description of the graph."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        description = archive.read_json("models/model.json")
        version = description["schema_version"]["major"]
        if version != _SCHEMA_MAJOR:
            raise BadInputError(
                f"{archive.path}: export schema {version}, expected {_SCHEMA_MAJOR}: "
                f"save the model again with torch {torch.__version__.partition('+')[0]}"
            )
        self._program = description["graph_module"]
        self._description = self._program["graph"]
        self._extra = archive.read_json(f"extra/{EXTRA}") if f"extra/{EXTRA}" in archive else {}
        if self._extra.get("format_version", EXTRA_VERSION) != EXTRA_VERSION:
            raise BadInputError(
                f"{archive.path}: written by a newer edge-embed (format {self._extra['format_version']}, "
                f"expected {EXTRA_VERSION}): upgrade edge-embed"
            )
        self._graph = fx.Graph()
        self._values: dict[str, Any] = {}

    def program(self) -> Program:
        inputs = self._read_inputs()
        for node in self._description["nodes"]:
            self._read_node(node)
        outputs = self._read_outputs()
        self._graph.lint()
        return Program(
            ProgramModule(self._graph, self._weights),
            inputs,
            self._output_names(len(outputs)),
            self._read_examples(inputs),
            self._extra.get("vocabulary"),
            self._extra.get("metadata", {}),
            self._archive.release,
        )

    def _read_inputs(self) -> tuple[ProgramInput, ...]:
        stored = {
            **self._archive.tensors("data/weights", "model_weights_config.json"),
            **self._archive.tensors("data/constants", "model_constants_config.json"),
        }
        self._weights: dict[str, Tensor] = {}
        inputs: list[ProgramInput] = []
        self._constant_inputs: list[bool] = []
        first_name: dict[Tensor, str] = {}
        symbols: dict[str, str] = {}
        for spec in self._program["signature"]["input_specs"]:
            ((kind, content),) = spec.items()
            if kind == "user_input":
                self._constant_inputs.append("as_tensor" not in content["arg"])
                if "as_tensor" in content["arg"]:
                    inputs.append(self._read_input(content["arg"]["as_tensor"]["name"], symbols))
                elif "as_none" not in content["arg"]:
                    raise BadInputError(
                        f"{self._archive.path}: an input is no tensor ({', '.join(content['arg'])}): "
                        "save the model with tensor inputs only"
                    )
                continue
            if kind not in ("parameter", "buffer", "tensor_constant"):
                raise BadInputError(f"{self._archive.path}: an input of kind {kind} cannot be exported")
            name = content[f"{kind}_name"]
            tensor = stored[name]
            name = first_name.setdefault(tensor, name)  # shared weights stay one weight
            if name not in self._weights:
                self._weights[name] = tensor
            self._values[content["arg"]["name"]] = self._graph.get_attr(name)
        return tuple(inputs)

    def _read_input(self, name: str, symbols: dict[str, str]) -> ProgramInput:
        meta = self._description["tensor_values"][name]
        chosen = self._extra.get("dimensions", {}).get(name, {})
        shape: list[int | str] = []
        for position, size in enumerate(meta["sizes"]):
            if "as_int" in size:
                shape.append(int(size["as_int"]))
                continue
            symbol = size["as_expr"]["expr_str"]  # compared as text, never parsed
            if symbol not in symbols:
                default = dimension_names(name, position, dict.fromkeys(symbols.values()))
                symbols[symbol] = str(chosen.get(str(position), default))
            shape.append(symbols[symbol])
        self._values[name] = self._graph.placeholder(name)
        return ProgramInput(name, DTYPES[meta["dtype"]], tuple(shape))

    def _read_node(self, node: Mapping[str, Any]) -> None:
        function = operators.resolve(node["target"])
        if function is None:
            return
        positional = [self._argument(item["arg"]) for item in node["inputs"] if item.get("kind") != 2]
        keyword = {item["name"]: self._argument(item["arg"]) for item in node["inputs"] if item.get("kind") == 2}
        result = self._graph.call_function(function, tuple(positional), keyword)
        outputs = node["outputs"]
        if len(outputs) == 1 and "as_tensors" in outputs[0]:
            outputs = [{"as_tensor": item} for item in outputs[0]["as_tensors"]]
        elif len(outputs) == 1:
            self._values[_output_name(outputs[0])] = result
            return
        for index, output in enumerate(outputs):
            if "as_none" not in output:
                item = self._graph.call_function(operators.GET_ITEM, (result, index))
                self._values[_output_name(output)] = item

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        ((kind, value),) = argument.items()
        if kind in _LITERALS:
            return None if kind == "as_none" else value
        if kind == "as_tensor":
            return self._values[value["name"]]
        if kind == "as_tensors":
            return [self._values[item["name"]] for item in value]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._symbol(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._symbol(item) for item in value]
        if kind == "as_optional_tensor":
            return self._argument(value)
        if kind == "as_optional_tensors":
            return [self._argument(item) for item in value]
        if kind in ("as_float", "as_floats"):
            return _number(value) if kind == "as_float" else [_number(item) for item in value]
        if kind == "as_scalar_type":
            return DTYPES[value]
        if kind == "as_memory_format":
            return _MEMORY_FORMATS[value]
        if kind == "as_layout":
            return _LAYOUTS[value]
        if kind == "as_device":
            return torch.device("cpu")  # where the user traced the model does not matter here
        raise BadInputError(f"{self._archive.path}: an argument of kind {kind} cannot be exported")

    def _symbol(self, value: Mapping[str, Any]) -> Any:
        return self._values[value["as_name"]] if "as_name" in value else next(iter(value.values()))

    def _read_outputs(self) -> list[Any]:
        outputs = []
        for spec in self._program["signature"]["output_specs"]:
            ((kind, content),) = spec.items()
            if kind != "user_output":
                changed = content.get("buffer_name") or content.get("user_input_name") or kind
                raise BadInputError(
                    f"{self._archive.path}: the model changes {changed} while it runs ({kind}), "
                    "which cannot be exported: keep such state outside the model"
                )
            if "as_tensor" not in content["arg"]:
                raise BadInputError(f"{self._archive.path}: an output is no tensor: return tensors only")
            outputs.append(self._values[content["arg"]["as_tensor"]["name"]])
        self._graph.output(tuple(outputs))
        return outputs

    def _output_names(self, count: int) -> tuple[str, ...]:
        names = [str(name) for name in self._extra.get("outputs", [])]
        if len(names) == count == len(set(names)):
            return tuple(names)
        return ("output",) if count == 1 else tuple(f"output_{index}" for index in range(count))

    def _read_examples(self, inputs: tuple[ProgramInput, ...]) -> tuple[Tensor, ...]:
        try:
            stored = torch.load(io.BytesIO(self._archive.read("data/sample_inputs/model.pt")), weights_only=True)
        except pickle.UnpicklingError as error:
            raise BadInputError(
                f"{self._archive.path}: its example inputs hold more than tensors, which could run code: refused"
            ) from error
        except (RuntimeError, EOFError, OSError) as error:
            raise self._archive.damaged(f"its example inputs cannot be read ({error})") from error
        leaves = pytree.tree_leaves(stored)
        if len(leaves) != len(self._constant_inputs):
            raise self._archive.damaged(f"{len(leaves)} example inputs for {len(self._constant_inputs)} inputs")
        examples = [leaf for leaf, constant in zip(leaves, self._constant_inputs, strict=True) if not constant]
        for example, declared in zip(examples, inputs, strict=True):
            if not isinstance(example, Tensor) or example.dtype != declared.dtype:
                raise self._archive.damaged(f"the example of input {declared.name} is no {declared.dtype} tensor")
        return tuple(examples)


def _output_name(output: Mapping[str, Any]) -> str:
    ((_, value),) = output.items()
    return str(value.get("name", value.get("as_name")))


def _number(value: Any) -> float:
    """A float; the schema writes the special ones as strings."""
    special = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    return special[value] if isinstance(value, str) else float(value)
