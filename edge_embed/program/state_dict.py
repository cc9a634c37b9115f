"""Weights without a model: a state_dict, and a function of the user that makes the module for it.

Reading the file runs no code from it. The function is the user's code and runs.
"""

import difflib
import importlib
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from edge_embed.errors import BadInputError, located
from edge_embed.program.checkpoint import read_checkpoint
from edge_embed.program.file_kind import is_safetensors, kind_in
from edge_embed.program.find_weights import Weights, find_weights, open_checkpoint
from edge_embed.program.module_file import unpickle
from edge_embed.program.tied_weights import check_tied
from edge_embed.program.without_weights import without_weights
from edge_embed.report.results.model_source import SourceFacts

Factory = Callable[[], nn.Module]
_LOG = logging.getLogger(__name__)

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_IS_PART = (
    "by its name, the file is one of several parts: merge them into one file, "
    "torch.save({name: tensor for part in parts for name, tensor in part.items()}, path)"
)
_SHOWN = 5  # number of names in a message
_COMPARED = 200


def import_factory(name: str) -> Factory:
    """Return the function of ``--model package.module:function``; the import runs its module.

    Raises:
        BadInputError: if there is no such module or function.
    """
    return import_function(name, "--model", "mymodel.tagger:make_model")


def import_function(name: str, option: str, example: str) -> Callable[..., Any]:
    """Return the function named ``package.module:function``; the import runs its module.

    Args:
        name: name of the function.
        option: option that names it, for messages.
        example: example of a name, for messages.

    Raises:
        BadInputError: if there is no such module or function.
    """
    expected = f"expected package.module:function, such as {example}"
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise BadInputError(f"{option} {name!r:.200}: {expected}")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # code of the module may raise anything
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise BadInputError(f"{option} {name}: {module_name} cannot be imported ({reason})") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise BadInputError(f"{option} {name}: {module_name} has no function {attribute}; {expected}")
    found: Callable[..., Any] = function
    return found


@dataclass(frozen=True)
class LoadedModule:
    """Module with the weights of a file, and the decisions about that file."""

    module: nn.Module
    facts: SourceFacts


def load_into(factory: Factory, path: Path) -> nn.Module:
    """Return a module of ``factory`` with the weights of a file, as `load_weights`."""
    return load_weights(factory, path).module


def load_weights(factory: Factory, path: Path, wanted: str | None = None, allow_pickle: bool = False) -> LoadedModule:
    """Return a module of ``factory`` with weights of a file: ``torch.save`` (also a checkpoint) or safetensors.

    Args:
        factory: function that makes the module.
        path: the file.
        wanted: path of the weights in a checkpoint, such as ``ema.module``; None if only one place fits.
        allow_pickle: whether to run code from a file that cannot be read otherwise.

    Raises:
        BadInputError: if the file does not hold exactly the weights of the module, or the function does not return a
            module.
    """
    try:
        module = factory()
    except (Exception, SystemExit) as error:  # code of the user
        raise BadInputError(f"the function of --model failed: {type(error).__name__}: {error!s:.200}") from error
    if not isinstance(module, nn.Module):
        raise BadInputError(f"the function of --model returned a {type(module).__name__}, expected a torch.nn.Module")
    content = _content(path, allow_pickle)
    with located(str(path)):
        checkpoint = open_checkpoint(content)
        if (other := without_weights(content, checkpoint)) is not None:
            raise BadInputError(other)
        weights = find_weights(checkpoint, module, wanted)
        try:
            module.load_state_dict(_with_aliases(weights, module))
        except RuntimeError as error:  # lists missing, unexpected and misshapen weights
            part = "" if _PART.search(path.stem) is None else f"; {_IS_PART}"
            raise BadInputError(f"does not match the model of --model: {_reason(str(error))}{part}") from error
        check_tied(module, weights.tensors)
    return LoadedModule(module, SourceFacts(_remarks(path, weights), weights.left_out))


def _content(path: Path, allow_pickle: bool) -> Any:
    if (kind := kind_in(path)) is not None:
        raise BadInputError(f"{path}: {kind}")
    if is_safetensors(path):
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise BadInputError(f"{path}: is damaged: {error!s:.300}: save it again") from error
    try:
        return read_checkpoint(path)
    except BadInputError:
        if not allow_pickle:
            raise
        return unpickle(path)


def _remarks(path: Path, weights: Weights) -> tuple[str, ...]:
    """Return remarks about the choice of weights if it is not obvious."""
    prefix = weights.prefix.removesuffix(".")
    remarks = [f"weights below {prefix!r:.200} are loaded, without that prefix"] if prefix else []
    if weights.others:
        others = ", ".join(repr(other.removesuffix(".")) for other in weights.others)
        remarks.append(f"loads the weights of {prefix!r:.200}, not of {others:.300}; --weights selects others")
        _LOG.warning("%s: %s", path, remarks[-1])
    return tuple(remarks)


def _with_aliases(weights: Weights, module: nn.Module) -> dict[str, Tensor]:
    """Return the weights under all names of a tied weight in the model; safetensors stores one of them."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    found = OrderedDict(weights.tensors)
    found._metadata = weights.metadata  # type: ignore[attr-defined]  # versions and sizes that layers record
    for same in names.values():
        stored = [name for name in same if name in weights.tensors]
        found |= {name: weights.tensors[stored[0]] for name in same if stored and name not in weights.tensors}
    return found


def _reason(message: str) -> str:
    """Return a short form of a ``load_state_dict`` message, with the closest names to the missing ones."""
    listed: dict[str, list[str]] = {"Missing": [], "Unexpected": []}
    others = []
    for line in message.split("\n\t")[1:]:
        kind = line.split(" ", 1)[0]
        if " key(s) in state_dict: " in line and kind in listed:
            listed[kind] += re.findall(r'"([^"]+)"', line)
        else:
            others.append(" ".join(line.split()))
    parts = [f"{kind} keys: {_shortened(names)}" for kind, names in listed.items() if names]
    pool = listed["Unexpected"][:_COMPARED]
    near = {name: difflib.get_close_matches(name, pool, n=1) for name in listed["Missing"][:_SHOWN]}
    pairs = [f"{name} is similar to {found[0]}" for name, found in near.items() if found]
    return f"{'; '.join([*parts, *pairs, *others]) or ' '.join(message.split()):.1000}"


def _shortened(names: Sequence[str]) -> str:
    """Return the first of many names, and the number of others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"{name:.100}" for name in names[:_SHOWN]) + more
