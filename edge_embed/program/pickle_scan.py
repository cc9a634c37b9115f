"""Scan of the names in a pickle without unpickling it: a stricter gate before ``torch.load(weights_only=True)``.

The restricted unpickler may still call an allowed name with any argument: ``bytearray(2**40)``, or a layer's
constructor with sizes that the file does not have. ``torch.save`` never writes such calls: it makes a layer without its
constructor (``GLOBAL EMPTY_TUPLE NEWOBJ``) and sets the attributes.
"""

import pickletools
from collections.abc import Collection

from edge_embed.program.archive_weights import DTYPES
from edge_embed.program.foreign_pickle import full_name

# All names in a pickle of tensors and containers: storages by their old class names, or by dtype.
TENSOR_NAMES = frozenset(
    [
        "collections.OrderedDict",
        "torch.Size",
        "torch.storage.UntypedStorage",
        *(f"torch._utils._rebuild_{what}" for what in ("tensor_v2", "tensor_v3", "parameter")),
        *(str(dtype) for dtype in DTYPES.values()),
        *(f"torch.{kind}Storage" for kind in "Byte Char Short Int Long Half Float Double Bool BFloat16".split()),
        *(f"torch.{dtype}" for dtype in ("uint16", "uint32", "uint64")),
    ]
)
_PUTS = ("BINPUT", "LONG_BINPUT", "PUT")
_GETS = ("BINGET", "LONG_BINGET", "GET")


def refused_names(stream: bytes, allowed: Collection[str], layers: Collection[str] = ()) -> list[str]:
    """Return the names in a pickle that are not allowed.

    Args:
        stream: the pickle, in protocol 2 as torch writes it.
        allowed: names that may be used in any way.
        layers: classes that may be instantiated, but not called.

    Raises:
        ValueError: if the stream is not a pickle, or calls a layer's constructor.
    """
    refused: dict[str, None] = {}
    layer_keys: set[object] = set()  # memo entries that hold a layer class
    expected: list[str] = []  # operations that must follow a layer class
    on_top = False  # whether the last value pushed is a layer class
    for operation, argument, _ in pickletools.genops(stream):
        name = operation.name
        if name in _PUTS:
            if on_top:
                layer_keys.add(argument)
            elif argument in layer_keys:
                layer_keys.discard(argument)
            continue
        if expected and name != expected.pop(0):
            raise ValueError("it calls the constructor of a layer")
        on_top = False
        if name == "GLOBAL":
            full = full_name(str(argument))
            on_top = full in layers
            if not on_top and full not in allowed:
                refused[full] = None
        elif name in ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "MEMOIZE") or name.startswith("EXT"):
            raise ValueError(f"it is not a pickle of torch.save ({name})")
        elif name in _GETS:
            on_top = argument in layer_keys
        if on_top:
            expected = ["EMPTY_TUPLE", "NEWOBJ"]
    return list(refused)
