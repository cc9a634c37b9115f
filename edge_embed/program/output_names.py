"""Names of outputs: keys and fields of the result of a model, which an archive stores as plain mappings."""

from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


def name_fields(program: ExportedProgram) -> None:
    """Turn results into mappings of their fields: torch 2.13 cannot save named tuples and other classes of mappings."""
    for call in program.module_call_graph:
        if call.signature is not None:
            spec = call.signature.out_spec
            leaves: list[Any] = [object()] * spec.num_leaves
            call.signature.out_spec = pytree.tree_structure(_fields(pytree.tree_unflatten(leaves, spec)))


def names_of_outputs(program: ExportedProgram) -> list[str]:
    """Return ``logits`` for ``{"logits": ...}``, ``states_0`` for the first item of a list; empty without names."""
    tree = program.call_spec.out_spec
    if tree is None or tree.type is not dict:
        return []
    leaves, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten([0] * tree.num_leaves, tree))
    return ["_".join(map(_key_name, path)) for path, _ in leaves]


def _fields(value: Any) -> Any:
    """Return the same leaves in the same order, in plain mappings, lists and tuples."""
    if isinstance(value, Mapping):  # also outputs of transformers
        return {key: _fields(item) for key, item in value.items()}
    # Named tuples, and results of ``torch.topk`` and others.
    if isinstance(value, tuple) and (names := getattr(value, "__match_args__", ())):
        return dict(zip(names, map(_fields, value), strict=True))
    if type(value) in (list, tuple):
        return type(value)(map(_fields, value))
    return value


def _key_name(key: Any) -> str:
    """Return the key of a mapping, or the position in a list."""
    return str(next(getattr(key, kind) for kind in ("key", "idx") if hasattr(key, kind)))
