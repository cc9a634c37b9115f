"""Contents of a session after optimisation: our nodes that are left, and all initializers.

The optimised model is saved to a temporary folder, with weights in a separate file, and only its structure is
read back. With the library our nodes must survive; without it they must be gone. A library that registers
nothing would otherwise seem to work, because the portable body runs in its place.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import GraphProto, TensorProto

from edge_embed.errors import one_line
from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.exporters.onnx.model_file import expected_bytes
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.methods import Parts
from edge_embed.report.results.validation import Check, LoadedSize
from edge_embed.validation import paths
from edge_embed.validation.exported_file import ExportedModel, nodes_inside

_NAMES = {"ORT_DISABLE_ALL": "disabled", "ORT_ENABLE_BASIC": "basic", "ORT_ENABLE_EXTENDED": "extended",
          "ORT_ENABLE_LAYOUT": "layout", "ORT_ENABLE_ALL": "all"}  # fmt: skip
LEVELS = {
    name: getattr(ort.GraphOptimizationLevel, attribute)
    for attribute, name in _NAMES.items()
    if hasattr(ort.GraphOptimizationLevel, attribute)
}


@dataclass(frozen=True)
class Optimized:
    """Measured contents of a session.

    Attributes:
        level: a key of `LEVELS`.
        library: whether the operator library was registered.
        own_nodes: number of nodes of our operators, including those in subgraphs.
        initializer_bytes: bytes of all initializers and constants of any type, including those in subgraphs.
        problem: reason why there is no such session; the numbers are then undefined.
    """

    level: str
    library: bool
    own_nodes: int
    initializer_bytes: int
    problem: str = ""


def optimize(path: Path, level: str, library: bool) -> Optimized:
    """Open a session at one optimisation level and measure its contents.

    Raises:
        NotRunError: the library is requested and there is none.
        BadInputError: the file cannot be opened.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "optimized.onnx"
        options = paths.quiet_options(threads=1)
        options.graph_optimization_level = LEVELS[level]
        options.optimized_model_filepath = str(target)
        prefix = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(f"{prefix}file_name", "optimized.data")
        options.add_session_config_entry(f"{prefix}min_size_in_bytes", "1024")
        paths.open_session(path, portable=not library, options=options)
        model = onnx.load(target, load_external_data=False)
    own = sum(node.domain == DOMAIN for node in nodes_inside(model.graph))
    return Optimized(level, library, own, sum(expected_bytes(tensor) or 0 for tensor in _tensors(model.graph)))


def optimize_all(exported: ExportedModel) -> list[Optimized]:
    """Open a session at every level, with the library and without."""
    found = []
    for level in LEVELS:
        for library in (True, False):
            try:
                found.append(optimize(exported.path, level, library))
            except Exception as error:  # the runtime's exceptions share no base class
                found.append(Optimized(level, library, 0, 0, one_line(error)))
    return found


def kernel_check(exported: ExportedModel, optimized: list[Optimized]) -> Check:
    """Check that the kernel runs with the library and the portable body without it, at every level."""
    name = "the kernel runs with the library, the body without"
    if reason := paths.missing_library():
        return Check(name, "not run", reason)
    methods = {OPERATORS[node.op_type].method.name for node in exported.nodes if node.op_type in OPERATORS}
    if bare := sorted(methods - set(Parts("kernels"))):
        return Check(name, "not run", f"{', '.join(bare)}: the library has no kernel, so the body runs with it too")
    expected = len(exported.nodes)
    # The optimiser may remove a branch that is never taken, together with its nodes.
    least = exported.num_outer_nodes or min(1, expected)
    for found in optimized:
        wanted = range(least, expected + 1) if found.library else range(1)
        problem = found.problem
        if not problem and found.own_nodes not in wanted:
            problem = f"got {found.own_nodes} nodes of edge-embed, expected {wanted[-1]}"
        if problem:
            side = "with" if found.library else "without"
            return Check(name, "failed", f"optimisation {found.level}, {side} the library: {problem}")
    detail = f"{expected} node(s) are kept with the library and inlined without it, at {len(LEVELS)} levels"
    return Check(name, "passed", detail)


def loaded_sizes(optimized: list[Optimized]) -> tuple[LoadedSize, ...]:
    """Return the bytes of all initializers, for the report."""
    return tuple(
        LoadedSize(found.level, found.library, found.initializer_bytes) for found in optimized if not found.problem
    )


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
