"""Weights without a model: a state_dict, and a function of the user's own that makes the module for it.

The file is read without running code from it; the function is the user's code and does run.
"""

import importlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from edge_embed.errors import BadInputError
from edge_embed.input_file import BoundedFile
from edge_embed.program.archive import Archive
from edge_embed.program.pickle_scan import TENSOR_NAMES, refused_names

Factory = Callable[[], nn.Module]
_LOG = logging.getLogger(__name__)

_WEIGHTS_ALONE = "save them with torch.save(model.state_dict(), path)"
# What wrappers of modules, DistributedDataParallel and torch.compile, put before every name.
_PREFIXES = ("module.", "_orig_mod.")
# Where training scripts put the weights among the epoch, the optimiser and the rest.
_NESTED = ("state_dict", "model_state_dict", "model")


def import_factory(name: str) -> Factory:
    """The function that ``--model package.module:function`` names; imports that module, which runs it.

    Raises:
        BadInputError: if there is no such module or function.
    """
    return import_function(name, "--model", "mymodel.tagger:make_model")


def import_function(name: str, option: str, example: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names; imports that module, which runs it.

    Args:
        name: of the function.
        option: what named it, for messages.
        example: of a name, for messages.

    Raises:
        BadInputError: if there is no such module or function.
    """
    expected = f"expected package.module:function, such as {example}"
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise BadInputError(f"{option} {name!r:.200}: {expected}")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the module's own code may raise anything
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise BadInputError(f"{option} {name}: {module_name} cannot be imported ({reason})") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise BadInputError(f"{option} {name}: {module_name} has no function {attribute}; {expected}")
    found: Callable[..., Any] = function
    return found


def load_into(factory: Factory, path: Path) -> nn.Module:
    """A module of ``factory`` with the weights of a file: ``torch.save`` of a state_dict, or safetensors.

    Raises:
        BadInputError: if the file holds no weights, or not exactly those of the module, or the function does
            not return a module.
    """
    try:
        module = factory()
    except (Exception, SystemExit) as error:  # the user's own code
        raise BadInputError(f"the function of --model failed: {type(error).__name__}: {error!s:.200}") from error
    if not isinstance(module, nn.Module):
        raise BadInputError(f"the function of --model returned a {type(module).__name__}, expected a torch.nn.Module")
    weights = _without_prefixes(_weights(path), module)
    try:
        module.load_state_dict(_with_aliases(weights, module))
    except RuntimeError as error:  # load_state_dict lists missing, unexpected and misshapen weights
        reason = " ".join(str(error).split())
        raise BadInputError(f"{path}: does not fit the model of --model: {reason:.1000}") from error
    return module


def _without_prefixes(weights: Mapping[str, Tensor], module: nn.Module) -> Mapping[str, Tensor]:
    """The weights under the names that they have in the model, if it was wrapped when they were saved."""
    own = list(module.state_dict())
    for prefix in _PREFIXES:
        if all(name.startswith(prefix) for name in weights) and not any(name.startswith(prefix) for name in own):
            consume_prefix_in_state_dict_if_present(weights, prefix)  # type: ignore[arg-type]
    return weights


def _with_aliases(weights: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """The weights under all names that a tied one has in the model; safetensors stores it under one of them."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    found = OrderedDict(weights)
    found._metadata = getattr(weights, "_metadata", None)  # type: ignore[attr-defined]  # the sizes that layers note
    for same in names.values():
        stored = [name for name in same if name in weights]
        found |= {name: weights[stored[0]] for name in same if stored and name not in weights}
    return found


def _weights(path: Path) -> Mapping[str, Tensor]:
    try:
        content: Any = load_file(path)
    except (SafetensorError, OSError):
        content = _unpickled(path)
    if isinstance(content, Mapping):
        content = _nested(content, path)
    if not _is_state_dict(content):
        raise BadInputError(f"{path}: holds no state_dict: {_WEIGHTS_ALONE}")
    return content  # type: ignore[no-any-return]


def _nested(content: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The weights in a checkpoint, or the content itself."""
    taken = next((name for name in _NESTED if isinstance(content.get(name), Mapping)), None)
    if taken is None:
        return content
    others = [str(name) for name, value in content.items() if name != taken and value and _is_state_dict(value)]
    if others:
        _LOG.warning("%s: takes the weights of %r, not of %s", path, taken, ", ".join(map(repr, others)))
    return content[taken]  # type: ignore[no-any-return]


def _is_state_dict(content: object) -> bool:
    return isinstance(content, Mapping) and all(isinstance(value, Tensor) for value in content.values())


def _unpickled(path: Path) -> Any:
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    archive = Archive(path) if is_archive else None  # torch.load does not compare the checksums of its members
    try:
        if is_archive:
            return torch.load(path, map_location="cpu", weights_only=True)
        with BoundedFile(path) as bounded:
            return torch.load(bounded, map_location="cpu", weights_only=True)
    except Exception as error:  # the restricted unpickler lets through whatever a wrong stream provokes
        reason = _refused(archive) or type(error).__name__
        raise BadInputError(f"{path}: is damaged, or holds more than weights ({reason}): {_WEIGHTS_ALONE}") from error


def _refused(archive: Archive | None) -> str:
    """What a checkpoint would look up beside tensors, if that can be read; torch's own message is advice to run it."""
    if archive is None or "data.pkl" not in archive:
        return ""
    try:
        names = refused_names(archive.read("data.pkl"), TENSOR_NAMES)
    except ValueError:
        return ""
    return f"it needs {', '.join(sorted(names)):.200}" if names else ""
