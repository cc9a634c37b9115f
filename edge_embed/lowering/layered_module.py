"""A saved model as a module again, with compressed embedding layers in the place of its operators over tables."""

from pathlib import Path
from typing import Any

from torch import Tensor, fx, nn

from edge_embed.errors import BadInputError
from edge_embed.files import StrPath, checked_path
from edge_embed.layers.frozen import frozen_layer
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.lowering.graph import CALLS, lower_program, table_of
from edge_embed.program.load import load_program
from edge_embed.program.program import Program, ProgramInterpreter, ProgramModule


class LoadedModel(ProgramModule):
    """Module of a saved model; `load` returns it. It runs as in eval mode, and its weights are buffers.

    Attributes:
        input_names: names of the inputs.
        output_names: names of the outputs, if there are several.
    """

    def __init__(self, program: Program, layers: dict[str, CompressedEmbedding], graph: fx.Graph) -> None:
        kept = sorted({str(node.target) for node in graph.find_nodes(op="get_attr")} - layers.keys())
        super().__init__(graph, {name: program.module.weight(name) for name in kept})
        self.input_names = tuple(each.name for each in program.inputs)
        self.output_names = program.output_names
        for name, layer in layers.items():
            self._add_layer(name, layer)

    def _add_layer(self, name: str, layer: CompressedEmbedding) -> None:
        *path, leaf = name.split(".")
        owner: nn.Module = self
        for part in path:
            owner = owner._modules.setdefault(part, nn.Module())  # type: ignore[assignment]
        if (others := owner._modules.get(leaf)) is not None:  # weights below the name of the table
            layer._buffers |= others._buffers
            layer._modules |= others._modules
        owner._modules[leaf] = layer

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Return the output, or a tuple of several ones in the order of `output_names`.

        Args:
            *inputs: inputs in the order of `input_names`.
            **named: further inputs by name.

        Raises:
            BadInputError: an input is missing, unknown or given twice.
        """
        rest = self.input_names[len(inputs) :]
        if len(inputs) > len(self.input_names) or set(named) != set(rest):
            got = f"got {len(inputs)} inputs and {', '.join(named) or 'no names'}"
            raise BadInputError(f"{got}, expected {', '.join(self.input_names)}")
        outputs = _Interpreter(self).run(*inputs, *(named[name] for name in rest))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class _Interpreter(ProgramInterpreter):
    def fetch_attr(self, target: str) -> Any:
        """Return a weight or a layer by its dotted name."""
        found: Any = self.module
        for part in target.split("."):
            found = found._modules[part] if part in found._modules else found._buffers[part]
        return found


def load(path: StrPath) -> LoadedModel:
    """Return the model of a file as a module whose compressed tables are layers of edge-embed.

    The layers have the names of the tables, are frozen, and return the rows of the file bit for bit:
    ``load("model.pt").get_submodule("words")``. No code of the file runs, and nothing is unpickled.

    Args:
        path: a file that `edge_embed.save` or ``edge-embed compress`` wrote. For the folder of a transformers model,
            use its ``from_pretrained`` after ``import edge_embed.transformers``.

    Returns:
        A module for inference. ``to_packed()`` of its layers returns the packed tables.

    Raises:
        BadInputError: the file is damaged, hostile or not a saved model.
    """
    if (file := Path(checked_path("path", path))).is_dir():
        remedy = "for a transformers model use its from_pretrained after `import edge_embed.transformers`"
        raise BadInputError(f"{file}: got a folder, expected a file of edge_embed.save: {remedy}")
    return _layered(load_program(file))


def _layered(program: Program) -> LoadedModel:
    lowered = lower_program(program)
    graph = lowered.program.module.graph
    layers = {name: frozen_layer(packed).eval() for name, packed in lowered.tables.items()}
    for layer in layers.values():
        layer.dtype = layer.stored_type
    for node in list(graph.nodes):
        if node.target in CALLS:
            _call_layer(graph, node, table_of(node))
    graph.eliminate_dead_code()
    return LoadedModel(lowered.program, layers, graph)


def _call_layer(graph: fx.Graph, node: fx.Node, name: str) -> None:
    call = CALLS[node.target]
    leading = node.args[: call.leading]
    with graph.inserting_before(node):
        layer = graph.get_attr(name)
        if call.use == "rows":
            made = graph.call_method("__call__", (layer, *leading))
        elif call.use == "topk":
            hidden, bias, k = leading
            made = graph.call_method("topk", (layer, hidden, k, bias))
        else:
            made = graph.call_method("use", (layer, call.use, *leading))
    node.replace_all_uses_with(made)
    graph.erase_node(node)
