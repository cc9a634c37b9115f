"""Modules from plain ``torch.save(model, path)``, without running code from the file.

Such a file is a pickle: it names Python classes and describes how to rebuild the objects. It is loaded with
``torch.load(weights_only=True)`` and an allow-list: the layers of torch.nn and of this package. The loaded module is
checked again, because a pickle may set any attribute of an allowed class.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.bag import (
    ANTEmbeddingBag,
    ANTMixtureEmbeddingBag,
    DPQEmbeddingBag,
    IntegerEmbeddingBag,
    ScaledDPQEmbeddingBag,
    TieredEmbeddingBag,
    TREmbeddingBag,
    TTEmbeddingBag,
)
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.dpq_bottleneck import DPQBottleneck
from edge_embed.layers.float_rows import FloatRows
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.layers.moving_centroids import MovingCentroids
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.program.archive import Archive
from edge_embed.program.archive_weights import MAX_EXPANDED_BYTES
from edge_embed.program.pickle_scan import TENSOR_NAMES, refused_names

_LOG = logging.getLogger(__name__)
# Classes of torch.nn that are not plain layers: they communicate with other processes or turn into another class.
_REFUSED_LAYERS = {"Module", "Container", "SyncBatchNorm"}
_LAYERS: frozenset[type[nn.Module]] = frozenset(
    [
        ANTEmbedding,
        ANTEmbeddingBag,
        ANTMixtureEmbedding,
        ANTMixtureEmbeddingBag,
        DPQBottleneck,
        DPQEmbedding,
        DPQEmbeddingBag,
        IntegerEmbedding,
        IntegerEmbeddingBag,
        ScaledDPQEmbedding,
        ScaledDPQEmbeddingBag,
        TieredEmbedding,
        TieredEmbeddingBag,
        TREmbedding,
        TREmbeddingBag,
        TTEmbedding,
        TTEmbeddingBag,
        TiedOutput,
        FloatRows,  # of TieredEmbedding
        MovingCentroids,  # of DPQEmbedding and DPQBottleneck
        nn.ParameterList,  # of TTEmbedding and TREmbedding
        nn.modules.linear.NonDynamicallyQuantizableLinear,  # inside nn.MultiheadAttention
        *(
            getattr(nn, name)
            for name in nn.modules.__all__
            if name not in _REFUSED_LAYERS and not name.startswith("Lazy") and issubclass(getattr(nn, name), nn.Module)
        ),
    ]
)
# Activations that nn.TransformerEncoderLayer and similar layers store as an attribute. torch.relu and others are
# pickled through getattr, which stays refused.
_FUNCTIONS: list[tuple[Any, str]] = [
    *(
        (getattr(functional, name), f"torch.nn.functional.{name}")
        for name in "relu silu mish elu selu celu tanh".split()
    ),
    (functional.gelu, "torch._C._nn.gelu"),
]
_LAYER_NAMES = frozenset(f"{layer.__module__}.{layer.__qualname__}" for layer in _LAYERS)
_NAMES = TENSOR_NAMES | {"builtins.set"} | {name for _, name in _FUNCTIONS}
WITHOUT_MODEL = (
    "contains weights without a model (a state_dict or a checkpoint): name a function that returns the "
    "model, --model package.module:function; or build the model, call load_state_dict, then "
    "edge_embed.save(model, path, example_inputs)"
)
_REMEDY = (
    "save the model with edge_embed.save(model, path, example_inputs), which requires no classes; or use "
    "--allow-pickle, which runs code from the file, if you trust its author"
)


def load_module(archive: Archive) -> nn.Module:
    """Return the module in a ``torch.save`` file, if it consists of torch.nn and edge_embed layers only.

    Raises:
        BadInputError: if it needs another class, which the message names, or holds no module.
    """
    path = archive.path
    with _allowed():
        try:
            refused = refused_names(archive.read("data.pkl"), _NAMES, _LAYER_NAMES)
            loaded = None if refused else torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:  # the restricted unpickler raises anything for a wrong stream
            raise BadInputError(
                f"{path}: is damaged or not a file of torch.save ({error!s:.200}): {_REMEDY}"
            ) from error
    if refused:
        raise BadInputError(f"{path}: requires {', '.join(sorted(refused))[:400]}: refused; {_REMEDY}")
    module = _module_in(path, loaded)
    try:
        _check(module, len(archive.content), set())
    except (BadInputError, AttributeError, TypeError, RecursionError) as error:
        raise BadInputError(f"{path}: {error}: refused; {_REMEDY}") from error
    return module


def unpickle_module(path: Path) -> nn.Module:
    """Return the module in any ``torch.save`` file. Runs code from the file.

    Raises:
        BadInputError: if its classes cannot be imported, or it holds no module.
    """
    return _module_in(path, unpickle(path))


def unpickle(path: Path) -> Any:
    """Return the object in any ``torch.save`` file. Runs code from the file.

    Raises:
        BadInputError: if its classes cannot be imported.
    """
    _LOG.warning("%s: loading with --allow-pickle runs code from the file", path)
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # code of the file may raise anything
        raise BadInputError(
            f"{path}: cannot be unpickled ({error!s:.200}): check that its classes can be imported here"
        ) from error


def _module_in(path: Path, loaded: Any) -> nn.Module:
    if isinstance(loaded, nn.Module):
        return loaded
    if isinstance(loaded, dict):
        raise BadInputError(f"{path}: {WITHOUT_MODEL}")
    raise BadInputError(f"{path}: contains a {type(loaded).__name__}, expected a module: {_REMEDY}")


@contextmanager
def _allowed() -> Iterator[None]:
    """Allow exactly the classes of our list; the user's own list is restored afterwards."""
    theirs = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals([*_LAYERS, *_FUNCTIONS]):
            yield
    finally:
        torch.serialization.add_safe_globals(theirs)


def _check(module: Any, file_bytes: int, seen: set[int]) -> None:
    """Raise unless the tree has only allowed layers, no replaced methods, and at most the memory of the file."""
    if id(module) in seen:
        return
    seen.add(id(module))
    name = type(module).__name__
    if type(module) not in _LAYERS:
        raise BadInputError(f"got a {name}, expected a supported layer")
    if not isinstance(vars(module).get("training"), bool):
        raise BadInputError(f"a {name} is incomplete")
    for key, value in vars(module).items():
        if key.endswith("_hooks") and value:
            raise BadInputError(f"a {name} has hooks ({key})")
        if callable(getattr(type(module), str(key), None)) or (key == "_compiled_call_impl" and value is not None):
            raise BadInputError(f"a {name} replaces its own method {key!r:.80}")
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        _check_tensor(name, tensor, file_bytes)
    for child in module._modules.values():
        if child is not None:
            _check(child, file_bytes, seen)


def _check_tensor(owner: str, tensor: Any, file_bytes: int) -> None:
    if tensor is None:
        return
    plain = type(tensor) in (Tensor, nn.Parameter) and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not plain or tensor.is_quantized:
        raise BadInputError(f"a weight of a {owner} is not a plain tensor")
    if tensor.untyped_storage().nbytes() > file_bytes or tensor.nbytes > max(file_bytes, MAX_EXPANDED_BYTES):
        raise BadInputError(
            f"a weight of a {owner} has {tensor.nbytes} bytes, which exceeds the file of {file_bytes} bytes"
        )
