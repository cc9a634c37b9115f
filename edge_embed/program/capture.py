"""Capture of a model as a ``torch.export`` archive that needs neither the user's class nor their code.

In the archive, each compressed layer is one opaque operator over its parameters, as is each sparse activation.
Recurrent layers keep a dynamic length. The archive contains no path or line of the user's source.
"""

import inspect
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from edge_embed.errors import BadInputError
from edge_embed.ops.opaque_entmax import opaque_entmax
from edge_embed.ops.recurrent import opaque_recurrence
from edge_embed.program.archive_extras import EXTRA, EXTRA_VERSION, read_extra
from edge_embed.program.bags_of_rows import bags_of_rows
from edge_embed.program.causal_masks import masks_not_compared
from edge_embed.program.fixed_view_sizes import fix_view_sizes
from edge_embed.program.frozen_tiers import tiers_frozen
from edge_embed.program.module_checks import check_inputs, check_module
from edge_embed.program.module_wrappers import children_unwrapped, inputs_named, unwrapped
from edge_embed.program.output_names import name_fields, names_of_outputs
from edge_embed.program.sizes_of_one import traced_at_any_size
from edge_embed.program.trace_errors import empty_example, explained
from edge_embed.program.traced_checks import check_traced
from edge_embed.program.vocabulary import tokens_by_id, warn_of_other_sizes

_TALKATIVE = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")

ExampleInputs = Tensor | Sequence[Any] | Mapping[str, Any]


def write_archive(
    model: nn.Module,
    file: IO[bytes],
    example_inputs: ExampleInputs,
    dynamic_shapes: Any = None,
    vocabulary: Sequence[str] | Mapping[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    dimension_names: Mapping[str, Mapping[int, str]] | None = None,
    output_names: Sequence[str] | None = None,
    input_names: Mapping[str, str] | None = None,
) -> None:
    """Trace ``model`` in eval mode and write the archive to ``file``.

    Args:
        model: any module.
        file: binary, writable.
        example_inputs: a tensor, positional inputs, or keyword inputs by name.
        dynamic_shapes: as for ``torch.export.export``; by default every dimension that the model allows is dynamic.
        vocabulary: the token of every id, or the id of every token.
        metadata: strings stored with the model.
        dimension_names: names of dynamic dimensions by input and position; by default those of the ``Dim`` objects in
            ``dynamic_shapes``.
        output_names: names of outputs; by default those of the mapping or named tuple that the model returns.
        input_names: names of inputs, by traced name, that are no identifiers.

    Raises:
        BadInputError: if the model cannot be traced, or metadata or vocabulary contain something other than strings.
    """
    if not isinstance(model, nn.Module):
        raise BadInputError(f"model: got a {type(model).__name__}, expected a torch.nn.Module")
    model = unwrapped(model)
    args, kwargs = _arguments(example_inputs)
    leaves = pytree.tree_leaves((args, kwargs))
    check_inputs(leaves)
    described = {
        "format_version": EXTRA_VERSION,
        "vocabulary": None if vocabulary is None else tokens_by_id(vocabulary),
        "metadata": dict(metadata or {}),
    }
    if input_names:
        described["inputs"] = dict(input_names)
    tokens = read_extra(described).vocabulary  # raise before minutes of tracing
    if tokens is not None:
        warn_of_other_sizes(model, tokens)
    with ExitStack() as stack:
        stack.enter_context(children_unwrapped(model))
        check_module(model)
        shapes = stack.enter_context(inputs_named(model, args, kwargs, dynamic_shapes))
        traced = trace(model, args, kwargs, shapes)
        with _torch_quiet(), _named_failure(model, empty=empty_example(leaves)):
            program = traced.run_decompositions({})  # replaces in-place calls by plain ones
        fix_view_sizes(program.graph)
        name_fields(program)
        check_traced(program, type(model).__name__)
        chosen = _chosen_names(model, args, kwargs, shapes, program)
    for node in program.graph.nodes:
        for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node"):
            node.meta.pop(key, None)
    extra = {
        **described,
        "dimensions": dimension_names or chosen,
        "outputs": names_of_outputs(program) if output_names is None else list(output_names),
    }
    _own_memory(program)
    with _torch_quiet():
        torch.export.save(program, file, extra_files={EXTRA: json.dumps(extra, ensure_ascii=False)})


def _own_memory(program: ExportedProgram) -> None:
    """Copy weights that are part of a larger storage: torch 2.13 writes the whole storage, or fails.

    Equal parts stay one tensor. A part of a weight that is written whole stays a part of it.
    """
    held = (program.state_dict, program.constants)
    weights = [tensor for tensors in held for tensor in tensors.values() if isinstance(tensor, Tensor)]
    whole = {_address(tensor) for tensor in weights if tensor.numel() and not _is_part(tensor)}
    copies: dict[Any, Tensor] = {}
    for tensors in held:
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor) or not _is_part(tensor):
                continue
            if tensor.numel() and _address(tensor) in whole:
                continue
            at = (_address(tensor), tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride())
            part = at if tensor.numel() else name
            own = copies.setdefault(part, tensor.detach().clone())
            tensors[name] = nn.Parameter(own, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else own


def _is_part(tensor: Tensor) -> bool:
    """Return whether the tensor is empty or covers only a part of its storage."""
    if tensor.layout is not torch.strided:
        return False
    return not tensor.numel() or tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


@contextmanager
def _torch_quiet() -> Iterator[None]:
    """Suppress torch 2.13's warnings about its own calls, and the pages it logs and prints beside an exception."""
    levels = {logger: logger.level for logger in map(logging.getLogger, _TALKATIVE)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), redirect_stderr(_WithoutGraphs(sys.stderr)):
        warnings.filterwarnings("ignore", message=".*assigned during export")
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec.*")
        warnings.filterwarnings("ignore", message="No complete tensor found in the group")
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)


class _WithoutGraphs:
    """Stream that drops the graph which torch 2.13 prints beside an error about values."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._ends = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text that is neither a graph nor the end of its line."""
        ends, self._ends = self._ends and text == "\n", "def forward(self" in text
        return len(text) if ends or self._ends else self._stream.write(text)


def _arguments(example_inputs: ExampleInputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, Tensor):
        return (example_inputs,), {}
    if not isinstance(example_inputs, Mapping | Sequence) or isinstance(example_inputs, str):
        raise BadInputError(
            f"example_inputs: got a {type(example_inputs).__name__}, expected a tensor, a sequence of inputs in "
            "order, or a mapping of inputs by name; convert an array with torch.from_numpy"
        )
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    return tuple(example_inputs), {}


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """Run ``torch.export`` in eval mode, with some opaque operators and dynamic example dimensions of 1."""
    args, kwargs = _apart(args, kwargs)
    is_shaped = dynamic_shapes is not None
    if dynamic_shapes is None:
        dynamic_shapes = _all_dynamic(model, args, kwargs)
    # Without this setting an example dimension of 0 or 1 would become fixed without a message.
    sizes_of_one = torch.fx.experimental._config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    # With torch's cache of operators, examples with an empty dimension cannot be traced, such as one without a past.
    nothing_kept = torch._dynamo.config.patch(fake_tensor_cache_enabled=False)

    def traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
        with ExitStack() as stack:
            opaque = opaque_recurrence(), opaque_entmax()
            settings = (sizes_of_one, nothing_kept, *opaque, masks_not_compared(), bags_of_rows())
            for context in (*settings, _torch_quiet()):
                stack.enter_context(context)
            stack.enter_context(_named_failure(model, is_shaped, empty_example(pytree.tree_leaves((args, kwargs)))))
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)

    with _eval_mode(model), tiers_frozen(model):
        return traced_at_any_size(traced, model, args, kwargs)


@contextmanager
def _named_failure(model: nn.Module, is_shaped: bool = False, empty: str = "") -> Iterator[None]:
    """Replace the many unrelated exceptions of tracing by one that names the line and the remedy."""
    try:
        yield
    except BadInputError:
        raise
    except Exception as error:
        raise BadInputError(explained(error, type(model).__name__, is_shaped, empty)) from error


def _apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs with a storage of their own each.

    ``torch.export`` would merge a tensor that is given twice into one input without a message, and it would write the
    whole data set for a slice of it.
    """
    seen: set[int] = set()

    def once(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or (id(leaf) not in seen and not _is_part(leaf)):
            seen.add(id(leaf))
            return leaf
        return leaf.clone()

    copied: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(once, (args, kwargs))
    return copied


def _all_dynamic(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return dynamic shapes with every dimension dynamic, unless the model itself fixes it."""
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        takes = f"{type(model).__name__}.forward({', '.join(signature.parameters)})"
        raise BadInputError(f"example_inputs do not match {takes}: {error}") from error
    shapes: dict[str, Any] = pytree.tree_map(
        lambda leaf: (Dim.AUTO,) * leaf.dim() if isinstance(leaf, Tensor) else None, dict(bound)
    )
    return shapes


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


def _chosen_names(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    program: ExportedProgram,
) -> dict[str, dict[int, str]]:
    """Return the names of the user's own ``Dim`` objects, by input and position."""
    if dynamic_shapes is None:
        return {}
    values = {**inspect.signature(model.forward).bind_partial(*args).arguments, **kwargs}
    if not isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(zip(values, dynamic_shapes, strict=False))
    names: dict[str, dict[int, str]] = {}
    for name, spec in zip(program.graph_signature.user_inputs, _leaf_specs(values, dynamic_shapes), strict=True):
        dimensions = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        names[str(name)] = {at: dim.__name__ for at, dim in dimensions if isinstance(dim, Dim)}
    return names


def _leaf_specs(value: Any, spec: Any) -> Iterator[Any]:
    """Yield the part of ``spec`` for every leaf of ``value``; for a missing part nothing is dynamic."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaf_specs(item, spec.get(key) if isinstance(spec, Mapping) else None)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _leaf_specs(item, spec[at] if isinstance(spec, list | tuple) and at < len(spec) else None)
    else:
        yield spec if isinstance(value, Tensor) else None
