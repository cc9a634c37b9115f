"""Recognition of the tool that wrote a pickle by the first class in it; nothing is loaded."""

import pickletools
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edge_embed.input_file import BoundedFile
from edge_embed.program.kind_of_file import JOINED, MATRIX, FileKind

OLD_MAGIC = 0x1950A86A20F9469CFC6C  # first of five pickles in a file of torch.save before torch 1.6
MALFORMED = (ValueError, EOFError, IndexError, OverflowError, TypeError, struct.error, UnicodeError, MemoryError)
_MOST_OPERATIONS = 1000
_START_BYTES = 64
_WITH_TORCH = "load it in the program that wrote it, and save its weights with torch.save"
# Prefixes of names in pickles of other tools; the longest match is used.
_MAKERS: dict[str, FileKind] = {
    "gensim": FileKind(
        "a model of gensim (a pickle)",
        "save its vectors: KeyedVectors.load(path) or Word2Vec.load(path).wv, then save_word2vec_format(path)",
    ),
    "joblib": FileKind("a file of joblib (a pickle)", MATRIX),
    "numpy": FileKind("a pickle of numpy arrays", MATRIX),
    "pandas": FileKind("a pickle of pandas", MATRIX),
    "scipy": FileKind("a pickle of scipy", MATRIX),
    "sklearn": FileKind("a model of scikit-learn (a pickle)", MATRIX),
    "torch": FileKind("a pickle of tensors from pickle.dump instead of torch.save", _WITH_TORCH),
    "torch.distributed.checkpoint": FileKind("the index of a distributed checkpoint of PyTorch (a pickle)", JOINED),
}


def is_old_torch_save(path: Path) -> bool:
    """Return whether a pickle begins as ``torch.save`` wrote it before torch 1.6."""
    with path.open("rb") as file:
        try:
            return any(argument == OLD_MAGIC for _, argument, _ in pickletools.genops(file.read(_START_BYTES)))
        except MALFORMED:
            return False


def foreign_pickle(path: Path) -> FileKind:
    """Return the kind of a pickle that ``torch.save`` did not write."""
    with BoundedFile(path) as file:
        names = list(_names(file))
    for name in names:
        makers = [maker for maker in _MAKERS if f"{name}.".startswith(f"{maker}.")]
        if makers:
            return _MAKERS[max(makers, key=len)]
    of = f" of {names[0]:.80}" if names else ""
    return FileKind(f"a pickle{of}, which torch.save did not write", f"{_WITH_TORCH}, or {MATRIX}")


def _names(file: BoundedFile) -> Iterator[str]:
    """Yield ``module.Class`` of the classes that the first operations look up, up to the first malformed one."""
    texts = ["", ""]
    operations = islice(pickletools.genops(file), _MOST_OPERATIONS)
    while True:
        try:
            operation, argument, _ = next(operations)
        except (StopIteration, *MALFORMED):
            return
        if operation.name == "GLOBAL":
            yield full_name(str(argument))
        elif operation.name == "STACK_GLOBAL":
            yield full_name(" ".join(texts))
        elif isinstance(argument, str):
            texts = [texts[1], argument]


def full_name(argument: str) -> str:
    """Return ``builtins.set`` for ``__builtin__ set``, as the unpickler maps the names of Python 2."""
    module, _, name = argument.partition(" ")
    module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
    return f"{module}.{name}"
