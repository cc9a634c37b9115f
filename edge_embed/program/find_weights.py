"""Search for the weights of a module in a checkpoint, by their names and shapes.

Every tensor of a checkpoint has a path, such as ``state_dict.model.words.weight``. The prefix before the names of the
module, here ``state_dict.model.``, is removed if it is the same for all of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.program.inert_pickle import Inert, Items
from edge_embed.program.stored_tensors import array_tensor, kind_of, unread_tensor
from edge_embed.report.results.model_source import LeftOut

_MOST_TENSORS = 1 << 18
_MOST_DEPTH = 64
_LONGEST_PATH = 1000
_SHOWN = 8
_NAMED = 3
# Keys under which training scripts store weights, the most common first. An average of weights is another model.
_USUAL = ("state_dict", "model_state_dict", "model", "module", "_orig_mod", "net")
_OF_MODULE = ("_parameters", "_buffers", "_modules")


@dataclass
class Checkpoint:
    """All tensors of a checkpoint.

    Attributes:
        tensors: tensors by path.
        owners: number of the mapping or module of each tensor.
        metadata: metadata that layers recorded, by path.
        kinds: kinds of the top-level parts, by name.
        parts: top-level part of each tensor.
        unread: kinds of tensors that are not read, by path.
        is_mapping: whether it is a state_dict or holds some, and not a module or a single tensor.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    is_mapping: bool = False

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose paths begin with a prefix, without the prefix."""
        return {path[len(prefix) :]: tensor for path, tensor in self.tensors.items() if path.startswith(prefix)}

    def metadata_under(self, prefix: str) -> dict[str, Any]:
        """Return the metadata of layers by their names in a module whose weights have this prefix."""
        found = {path[len(prefix) :]: noted for path, noted in self.metadata.items() if path.startswith(prefix)}
        root = self.metadata.get(prefix.removesuffix("."))
        return found if root is None else {"": root, **found}


@dataclass(frozen=True)
class Weights:
    """Weights of a module.

    Attributes:
        prefix: prefix that was removed.
        tensors: tensors by the names of the module.
        metadata: metadata that layers recorded.
        others: prefixes of other weights that would fit.
        left_out: other content of the checkpoint.
    """

    prefix: str
    tensors: dict[str, Tensor]
    metadata: dict[str, Any]
    others: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def open_checkpoint(content: Any) -> Checkpoint:
    """List the tensors of a result of `read_checkpoint`.

    Raises:
        BadInputError: there are more tensors than any model has.
    """
    found = Checkpoint(is_mapping=isinstance(content, dict))
    found.kinds = {name: kind_of(value) for name, value in _children(content)}
    seen: set[int] = set()
    arrays: dict[tuple[int, str], NDArray[Any]] = {}
    waiting = [("", "", content, 0, -1)]
    while waiting:
        part, path, value, depth, owner = waiting.pop()
        tensor = value if isinstance(value, Tensor) else array_tensor(value, arrays)
        if tensor is not None:
            found.tensors[path] = tensor
            found.owners[path] = owner
            found.parts[path] = part
            if len(found.tensors) > _MOST_TENSORS:
                raise BadInputError(f"contains more than {_MOST_TENSORS} tensors")
        elif isinstance(value, dict | list | tuple | Inert) and id(value) not in seen and depth < _MOST_DEPTH:
            seen.add(id(value))
            if (kind := unread_tensor(value)) is not None:
                found.unread[path] = kind
            inner = owner if owner >= 0 and _is_module(value) else len(seen)
            _note(found.metadata, path, value)
            for name, child in reversed(list(_children(value))):
                if len(path) + len(name) < _LONGEST_PATH:
                    waiting.append((part or name, _joined(path, name), child, depth + 1, inner))
    return found


def find_weights(checkpoint: Checkpoint, module: nn.Module, wanted: str | None) -> Weights:
    """Return the weights that fit a module best.

    Args:
        checkpoint: from `open_checkpoint`.
        module: module of the weights.
        wanted: path of the requested weights, or None.

    Raises:
        BadInputError: there are none under the path, or several fit equally; the message names them.
    """
    own = dict(module.state_dict(keep_vars=True))
    begin = "" if wanted is None else f"{wanted.removesuffix('.')}."
    if begin and not any(path.startswith(begin) for path in checkpoint.tensors):
        raise BadInputError(
            f"--weights {wanted!r:.200}: the checkpoint has no tensors there, but some below {_places(checkpoint)}"
        )
    prefixes = {prefix: fit for prefix, fit in _prefixes(checkpoint, own).items() if prefix.startswith(begin)}
    prefix, others = _chosen(checkpoint, prefixes, wanted) if prefixes else (_largest(checkpoint, begin), ())
    tensors = checkpoint.under(prefix)
    inside = {checkpoint.owners[prefix + name] for name in own if prefix + name in checkpoint.tensors}
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if name in own or not inside or checkpoint.owners[prefix + name] in inside
    }
    left_out = _left_out(checkpoint, {prefix + name for name in kept})
    return Weights(prefix, kept, checkpoint.metadata_under(prefix), others, left_out)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a mapping, a list or an object, by name."""
    if isinstance(value, Inert):
        state = _attributes(value)
        if _is_module(value):
            unsaved = {name for name in _listed(state.get("_non_persistent_buffers_set")) if isinstance(name, str)}
            for part in _OF_MODULE:
                yield from ((name, child) for name, child in _children(state[part]) if name not in unsaved)
            return
        for held in (value.items, state, value.values):
            yield from _children(held)
    elif isinstance(value, dict):
        yield from ((str(key), child) for key, child in value.items() if isinstance(key, str | int))
    elif isinstance(value, list | tuple):
        yield from ((str(at), child) for at, child in enumerate(value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _attributes(value: Inert) -> Mapping[Any, Any]:
    """Return the attributes that a pickle sets on an object, including slots."""
    states = value.state if isinstance(value.state, tuple) else (value.state,)
    return next((state for state in states if isinstance(state, Items)), Items())


def _is_module(value: Any) -> bool:
    state = _attributes(value) if isinstance(value, Inert) else {}
    return all(isinstance(state.get(part), Items) for part in _OF_MODULE)


def _note(metadata: dict[str, Any], path: str, value: Any) -> None:
    """Store the metadata that layers of a state_dict recorded, such as versions."""
    noted = value.state.get("_metadata") if isinstance(value, Items) and isinstance(value.state, Items) else None
    for name, facts in noted.items() if isinstance(noted, Items) else ():
        plain = isinstance(name, str) and isinstance(facts, dict)
        if plain and all(isinstance(fact, str | int | float | bool | tuple | None) for fact in facts.values()):
            metadata[_joined(path, name) if name else path] = dict(facts)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


@dataclass
class _Fit:
    """Quality of a prefix: the tensors of the module whose names, and whose shapes, occur under it."""

    named: set[int] = field(default_factory=set)
    shaped: set[int] = field(default_factory=set)
    is_whole: bool = False


def _prefixes(checkpoint: Checkpoint, own: Mapping[str, Any]) -> dict[str, _Fit]:
    """Return the possible prefixes of the module's names."""
    groups = {name: id(value) for name, value in own.items()}
    found: dict[str, _Fit] = {}
    for path, tensor in checkpoint.tensors.items():
        at = 0
        for _ in range(_MOST_DEPTH):
            name = path[at:]
            if name in groups:
                fit = found.setdefault(path[:at], _Fit())
                fit.named.add(groups[name])
                if getattr(own[name], "shape", None) == tensor.shape:
                    fit.shaped.add(groups[name])
            at = path.find(".", at) + 1
            if not at:
                break
    for fit in found.values():
        fit.is_whole = len(fit.shaped) == len(set(groups.values()))
    return found


def _chosen(checkpoint: Checkpoint, prefixes: Mapping[str, _Fit], wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the prefix that fits best, and others that fit equally."""
    most = max((fit.is_whole, len(fit.shaped), len(fit.named)) for fit in prefixes.values())
    best = [prefix for prefix, fit in prefixes.items() if (fit.is_whole, len(fit.shaped), len(fit.named)) == most]
    distinct = {_identity(checkpoint, prefix): prefix for prefix in sorted(best, key=_strangeness, reverse=True)}
    ranked = sorted(distinct.values(), key=_strangeness)
    if wanted is not None and f"{wanted.removesuffix('.')}." in ranked:
        ranked.remove(f"{wanted.removesuffix('.')}.")
        return f"{wanted.removesuffix('.')}.", tuple(ranked)
    first, *others = ranked
    if others and (_strangeness(first) == _strangeness(others[0]) or not _is_usual(first)):
        listed = ", ".join(repr(prefix.removesuffix(".")) for prefix in ranked[:_SHOWN])
        raise BadInputError(
            f"contains {len(ranked)} sets of weights that match the model of --model: {listed}: choose one with "
            "--weights PATH"
        )
    return first, tuple(others)


def _identity(checkpoint: Checkpoint, prefix: str) -> tuple[int, ...]:
    """Return a key that is equal for two prefixes of the same tensors."""
    return tuple(sorted(id(tensor) for tensor in checkpoint.under(prefix).values()))


def _is_usual(prefix: str) -> bool:
    return all(part in _USUAL for part in prefix.split(".")[:-1])


def _strangeness(prefix: str) -> list[int]:
    """Return a sort key that puts usual places of weights first."""
    parts = prefix.split(".")[:-1]
    ranks = [_USUAL.index(part) if part in _USUAL else len(_USUAL) for part in parts]
    return [max(ranks, default=-1), *ranks]


def _largest(checkpoint: Checkpoint, begin: str) -> str:
    """Return the prefix of the mapping with the most tensors, for the message if no name fits."""
    counts = Counter(owner for path, owner in checkpoint.owners.items() if path.startswith(begin))
    ((owner, _),) = counts.most_common(1)
    paths = [path for path, of in checkpoint.owners.items() if of == owner and path.startswith(begin)]
    return begin if len(paths) == 1 else _common(paths, begin)


def _common(paths: Sequence[str], begin: str) -> str:
    """Return the common beginning of all paths, up to a dot."""
    first, last = min(paths), max(paths)
    same = next((at for at, char in enumerate(first) if at >= len(last) or char != last[at]), len(first))
    return max(first[: first.rfind(".", 0, same) + 1], begin, key=len)


def _places(checkpoint: Checkpoint) -> str:
    """Return a message about the places of tensors."""
    counts = Counter(path.rpartition(".")[0].partition(".")[0] for path in checkpoint.tensors)
    return ", ".join(repr(name) for name, _ in counts.most_common(_SHOWN))


def _left_out(checkpoint: Checkpoint, taken: set[str]) -> tuple[LeftOut, ...]:
    """Return the unused parts of a checkpoint, and the unused tensors beside used ones."""
    used = {checkpoint.parts[path] for path in taken}
    paths: dict[str, list[str]] = {}
    for path, part in checkpoint.parts.items():
        if path not in taken:
            paths.setdefault(part, []).append(path)
    found = []
    for part, kind in checkpoint.kinds.items():
        beside = paths.get(part, [])
        nbytes = sum(checkpoint.tensors[path].nbytes for path in beside) if beside else None
        if part not in used:
            found.append(LeftOut(f"{part:.200}", f"not weights of the model: {kind:.200}", len(beside) or None, nbytes))
        elif beside:
            names = ", ".join(beside[:_NAMED]) + (", ..." if len(beside) > _NAMED else "")
            found.append(LeftOut(f"tensors of {part:.200}", f"of other modules: {names:.200}", len(beside), nbytes))
    return tuple(found)
