"""Reader of a saved program that evaluates nothing from the file.

``torch.export.load`` runs code from a hostile archive: it evaluates size expressions and guards, imports the types in
tree specs, and unpickles weights and examples. This reader reads the graph from ``models/model.json`` operator by
operator (`edge_embed.program.operators`), weights as views of the mapped file, and examples through
``torch.load(weights_only=True)``. A size expression only marks a dimension as dynamic. Guards and tree specs are
ignored.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.program import operators
from edge_embed.program.archive import Archive
from edge_embed.program.archive_extras import EXTRA, Extra, is_name, read_extra
from edge_embed.program.archive_weights import DTYPES, read_tensors
from edge_embed.program.call_checks import check_call, check_results
from edge_embed.program.example_inputs import MEMBER, read_examples
from edge_embed.program.program import Program, ProgramInput, ProgramModule, default_dimension_name
from edge_embed.program.row_numbers import RowNumbers

MODEL = "models/model.json"
_SCHEMA_MAJOR = 8
_KEYWORD = 2
_LAYOUTS = {7: torch.strided}
_MEMORY_FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 4: torch.preserve_format}
_LITERALS: dict[str, type] = {"as_int": int, "as_bool": bool, "as_string": str}
_LISTS = {f"{kind}s": kind for kind in
          ("as_int", "as_bool", "as_float", "as_sym_int", "as_sym_float", "as_sym_bool", "as_tensor",
           "as_optional_tensor")}  # fmt: skip


def read_program(path: Path) -> Program:
    """Read a ``model.pt`` written by `edge_embed.save`, or a ``.pt2`` from another tool.

    Raises:
        BadInputError: if the file is damaged, or uses something that cannot be read safely; the message names the
            operator or feature. A damaged or hostile file causes no other exception.
    """
    return program_in(Archive(path))


def program_in(archive: Archive) -> Program:
    """Return the program in an open archive, as `read_program`."""
    path = archive.path
    try:
        return _Reader(archive).program()
    except BadInputError as error:
        if str(path) in str(error):
            raise
        raise BadInputError(f"{path}: {error}") from error
    except Exception as error:  # any type, for a wrong structure: the file is at fault
        raise archive.damaged(f"{type(error).__name__} in its description: {error!s:.200}") from error


class _Reader:
    """Single pass over the description of the graph."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        description = archive.read_json(MODEL)
        version = description["schema_version"]["major"]
        if version != _SCHEMA_MAJOR:
            raise BadInputError(
                f"export schema {version!r:.40}, expected {_SCHEMA_MAJOR}: "
                f"save the model again with torch {torch.__version__.partition('+')[0]}"
            )
        self._program = description["graph_module"]
        self._description = self._program["graph"]
        extra = f"extra/{EXTRA}"
        self._extra = read_extra(archive.read_json(extra)) if extra in archive else Extra()
        self._graph = fx.Graph()
        self._values: dict[str, fx.Node] = {}
        self._weights: dict[str, Tensor] = {}
        self._numbers = RowNumbers(self._graph, self._description, self._values)

    def program(self) -> Program:
        slots = self._read_inputs()
        for node in self._description["nodes"]:
            self._read_node(node)
        count = self._read_outputs()
        self._graph.lint()
        if MEMBER not in self._archive:
            raise BadInputError("the file has no example inputs: save the model with edge_embed.save")
        inputs = tuple(slot for slot in slots if slot is not None)
        return Program(
            ProgramModule(self._graph, self._weights),
            inputs,
            self._output_names(count, {declared.name for declared in inputs}),
            read_examples(self._archive, slots),
            self._extra.vocabulary,
            self._extra.metadata,
            release=self._archive.release,
        )

    def _define(self, name: Any, node: fx.Node) -> None:
        if not is_name(name) or name in self._values:
            raise self._archive.damaged(f"the value {name!r:.80} is defined twice, or has an invalid name")
        self._values[name] = node

    def _read_inputs(self) -> list[ProgramInput | None]:
        """Read placeholders and weights; a slot is None if an example input is a constant of the graph."""
        stored = {
            **read_tensors(self._archive, "data/weights", "model_weights_config.json"),
            **read_tensors(self._archive, "data/constants", "model_constants_config.json"),
        }
        slots: list[ProgramInput | None] = []
        # A shared weight stays one, under its first name in the user's model.
        first_name: dict[Tensor, str] = {}
        for name, tensor in stored.items():
            first_name.setdefault(tensor, name)
        symbols: dict[str, str] = {}
        for spec in self._program["signature"]["input_specs"]:
            ((kind, content),) = spec.items()
            if kind == "user_input":
                slots.append(self._read_input(content["arg"], symbols))
            elif kind == "constant_input":  # None, a number or a flag: a constant of the traced graph
                slots.append(None)
            elif kind in ("parameter", "buffer", "tensor_constant"):
                tensor = stored[content[f"{kind}_name"]]
                name = first_name[tensor]
                self._weights[name] = tensor
                self._define(content["arg"]["name"], self._graph.get_attr(name))
            else:
                raise BadInputError(
                    f"got an input of kind {kind!r:.80}, expected tensors: save the model with tensor inputs only"
                )
        return slots

    def _read_input(self, argument: Mapping[str, Any], symbols: dict[str, str]) -> ProgramInput | None:
        ((kind, content),) = argument.items()
        if kind == "as_none":
            return None
        if kind != "as_tensor":
            raise BadInputError(
                f"got an input of kind {kind!r:.80}, expected tensors: save the model with tensor inputs only"
            )
        name = content["name"]
        if not is_name(name) or not name.isidentifier():
            raise self._archive.damaged(f"{name!r:.80} is not a valid name of an input")
        meta = self._description["tensor_values"][name]
        if meta["dtype"] not in DTYPES:
            raise BadInputError(
                f"input {name} has type {meta['dtype']!r:.20} of torch's export schema, which is not supported"
            )
        shape = tuple(self._dimension(name, at, size, symbols) for at, size in enumerate(meta["sizes"]))
        shown = self._extra.inputs.get(name, name)
        self._define(name, self._graph.placeholder(shown))
        return ProgramInput(shown, DTYPES[meta["dtype"]], shape)

    def _dimension(self, name: str, at: int, size: Mapping[str, Any], symbols: dict[str, str]) -> int | str:
        """Return a fixed size, or the name of a dynamic dimension; its expression is compared as text, never parsed."""
        if "as_int" in size:
            if type(size["as_int"]) is not int or not 0 <= size["as_int"] < 2**63:
                raise self._archive.damaged(f"input {name} has an invalid size {size!r:.80}")
            return size["as_int"]
        symbol = size["as_expr"]["expr_str"]
        if symbol not in symbols:
            chosen = self._extra.dimensions
            taken = {*symbols.values(), *(text for names in chosen.values() for text in names.values())}
            default = default_dimension_name(name, at, dict.fromkeys(taken))
            symbols[symbol] = chosen.get(name, {}).get(str(at), default)
        return symbols[symbol]

    def _read_node(self, node: Mapping[str, Any]) -> None:
        if self._numbers.takes(node):
            return
        row = self._numbers.row(node)
        if row is not None:
            self._define(_output_name(node["outputs"][0]), row)
            return
        function = operators.resolve(node["target"])
        if function is None:
            return
        args = tuple(self._argument(item["arg"]) for item in node["inputs"] if item.get("kind") != _KEYWORD)
        kwargs = {item["name"]: self._argument(item["arg"]) for item in node["inputs"] if item.get("kind") == _KEYWORD}
        check_call(function, args, kwargs)
        outputs = node["outputs"]
        is_list = len(outputs) == 1 and "as_tensors" in outputs[0]
        if is_list:
            outputs = [{"as_tensor": item} for item in outputs[0]["as_tensors"]]
        check_results(function, len(outputs), is_list)
        result = self._graph.call_function(function, args, kwargs)
        if len(outputs) == 1 and not is_list:
            self._define(_output_name(outputs[0]), result)
            return
        for index, output in enumerate(outputs):
            if "as_none" not in output:
                item = self._graph.call_function(operators.GET_ITEM, (result, index))
                self._define(_output_name(output), item)

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        ((kind, value),) = argument.items()
        if kind in _LISTS:
            return [self._single(_LISTS[kind], item) for item in value]
        return self._single(kind, value)

    def _single(self, kind: str, value: Any) -> Any:
        if kind == "as_none":
            return None
        if kind in _LITERALS:
            if type(value) is not _LITERALS[kind]:
                raise self._archive.damaged(f"{value!r:.80} is stored as {kind}")
            return value
        if kind == "as_tensor":
            return self._values[value["name"]]
        if kind == "as_optional_tensor":
            return self._argument(value)
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            ((how, content),) = value.items()
            return self._values[content] if how == "as_name" else self._single(how, content)
        if kind == "as_float":
            return _number(value)
        if kind == "as_scalar_type":
            return DTYPES[value]
        if kind == "as_memory_format":
            return _MEMORY_FORMATS[value]
        if kind == "as_layout":
            return _LAYOUTS[value]
        if kind == "as_device":
            return torch.device("cpu")  # the device of tracing does not matter here
        raise BadInputError(f"an argument of kind {kind!r:.80} cannot be exported")

    def _read_outputs(self) -> int:
        outputs = []
        for spec in self._program["signature"]["output_specs"]:
            ((kind, content),) = spec.items()
            if kind != "user_output":
                changed = content.get("buffer_name") or content.get("user_input_name") or "its own state"
                raise BadInputError(
                    f"the model changes {changed!r:.200} while it runs ({kind:.80}), "
                    "which cannot be exported: keep this state outside the model"
                )
            if "as_tensor" not in content["arg"]:
                raise BadInputError("an output is not a tensor: return tensors only")
            outputs.append(self._values[content["arg"]["as_tensor"]["name"]])
        self._graph.output(tuple(outputs))
        return len(outputs)

    def _output_names(self, count: int, taken: set[str]) -> tuple[str, ...]:
        """Return the user's own names if there is one per output; names of inputs get a suffix."""
        names = self._extra.outputs
        if not len(names) == count == len(set(names)):
            names = ("output",) if count == 1 else tuple(f"output_{index}" for index in range(count))
        unique: list[str] = []
        for name in names:
            while name in taken:
                name += "_output"  # noqa: PLW2901
            taken.add(name)
            unique.append(name)
        return tuple(unique)


def _output_name(output: Mapping[str, Any]) -> Any:
    ((_, value),) = output.items()
    return value["name"] if "name" in value else value["as_name"]


def _number(value: Any) -> float:
    """Return a float; the schema writes special ones as strings."""
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is not a number")
    return float(value)
