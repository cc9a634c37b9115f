"""Plain ``torch.save`` file: a pickle, which is code. It is listed, never run.

``pickletools`` walks the instructions and lists the names that loading would import; nothing is imported.
"""

import pickletools
import struct
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from edge_embed.errors import BadInputError
from edge_embed.input_file import BoundedFile
from edge_embed.inspection.report import DenseInfo, FileReport, TorchSaveInfo
from edge_embed.program.foreign_pickle import foreign_pickle, is_old_torch_save

_MALFORMED = (ValueError, EOFError, IndexError, OverflowError, struct.error, NotImplementedError)
_START_BYTES = 64
_PROTOCOL, _FRAME, _DICT = b"\x80", b"\x95", b"}"  # instructions of pickles
_MAX_PICKLE_BYTES = 64 << 20
# Names in the pickle of a state_dict: containers and tensors.
_TENSOR_NAMES = ("collections.OrderedDict", "torch._utils.", "torch._tensor.")
_REMEDY = (
    "load it where its class is defined and call edge_embed.save(model, 'model.pt', example_inputs); export also "
    "accepts a module of torch.nn and edge_embed classes only, with --input NAME:DTYPE[SIZES], such as "
    "--input ids:int64[batch,seq]"
)
_WITH_MODEL = (
    "without their model: give compress or export --model package.module:function, which returns the model, and "
    "--input NAME:DTYPE[SIZES]; or create the model, load the weights, and call "
    "edge_embed.save(model, 'model.pt', example_inputs)"
)
_NOTES = {
    "module": f"a module that torch.save pickled, so its tables are not listed; {_REMEDY}",
    "state_dict": f"weights of a state_dict that torch.save wrote, {_WITH_MODEL}",
    "checkpoint": f"a checkpoint of weights and other values, {_WITH_MODEL}",
    "torchscript": "a TorchScript archive, which is not supported: use its Python model and "
    "call edge_embed.save(model, 'model.pt', example_inputs)",
}


def member_names(path: Path) -> set[str]:
    """Return names in a zip archive, without the top folder that torch adds.

    Raises:
        BadInputError: It is no whole zip archive.
    """
    with _archive(path) as archive:
        members = archive.infolist()
    if members and min(member.header_offset for member in members) > 0:
        # A saved program contains an archive with its example inputs; zipfile finds that one if the file is cut after
        # it.
        raise _damaged(path, "the archive begins inside the file, so its end is missing")
    return {member.filename.partition("/")[2] for member in members}


def inspect_torch_save(path: Path, verify: bool) -> FileReport:
    """Report a zip archive that ``torch.save`` wrote.

    Raises:
        BadInputError: It is damaged; with ``verify``, also if a checksum does not match.
    """
    with _archive(path) as archive:
        members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
        is_script = "constants.pkl" in members  # the code of a script is compressed
        if not is_script and any(member.compress_type != zipfile.ZIP_STORED for member in members.values()):
            raise _damaged(path, "a member is compressed, which torch.save never does")
        if members["data.pkl"].file_size > _MAX_PICKLE_BYTES:
            got = members["data.pkl"].file_size
            raise _damaged(path, f"its pickle has {got} bytes, expected at most {_MAX_PICKLE_BYTES}")
        try:
            with archive.open(members["data.pkl"]) as file:
                is_mapping = _is_mapping(file.read(_START_BYTES))
                file.seek(0)
                names = list(dict.fromkeys(_names(file)))
            broken = archive.testzip() if verify else None
        except (*_MALFORMED, zipfile.BadZipFile, OSError) as error:
            raise _damaged(path, str(error)) from error
    if broken is not None:
        raise _damaged(path, f"the checksum of {broken} does not match")
    tensor_bytes = sum(member.file_size for name, member in members.items() if name.startswith("data/"))
    contents = "torchscript" if is_script else _contents(names, is_mapping)
    return _report(path, verify, TorchSaveInfo(contents, names, tensor_bytes))


def inspect_old_torch_save(path: Path, verify: bool) -> FileReport:
    """Report a file of the format before torch 1.6: pickles one after another, then the tensors.

    Raises:
        BadInputError: It is damaged, or some other pickle.
    """
    try:
        if not is_old_torch_save(path):
            raise BadInputError(f"{path}: {foreign_pickle(path)}")
        with BoundedFile(path) as file:
            names = [name for _ in range(3) for name in _names(file)]  # magic number, protocol and machine
            begin = file.tell()
            is_mapping = _is_mapping(file.read(_START_BYTES))
            file.seek(begin)
            names += _names(file)
    except BadInputError:
        raise
    except (*_MALFORMED, OSError) as error:
        raise _damaged(path, str(error)) from error
    names = list(dict.fromkeys(names))
    return _report(path, verify, TorchSaveInfo(_contents(names, is_mapping), names, None))


def _report(path: Path, verify: bool, info: TorchSaveInfo) -> FileReport:
    size = path.stat().st_size
    dense, notes = _weights(path, info.contents)
    return FileReport(
        path=str(path),
        kind="torch_save",
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        torch_save=info,
        dense=dense,
        notes=notes,
    )


def _weights(path: Path, contents: str) -> tuple[list[DenseInfo], list[str]]:
    """Return the candidate tables and the notes of a file. Reading the weights of a checkpoint imports torch."""
    if contents not in ("state_dict", "checkpoint"):
        return [], [_NOTES[contents]]

    from edge_embed.inspection.candidates import candidates, note_of  # noqa: PLC0415
    from edge_embed.program.checkpoint import read_checkpoint  # noqa: PLC0415
    from edge_embed.program.find_weights import open_checkpoint  # noqa: PLC0415
    from edge_embed.program.without_weights import without_weights  # noqa: PLC0415

    with suppress(BadInputError):  # the other commands report it
        content = read_checkpoint(path)
        checkpoint = open_checkpoint(content)
        other = without_weights(content, checkpoint)
        found = list(candidates(content, checkpoint)) if other is None else []
        notes = [_NOTES[contents] if other is None else f"it {other}"]
        return found, [*notes, note_of(path, found)] if found else notes
    return [], [_NOTES[contents]]


def _contents(names: list[str], is_mapping: bool) -> Literal["module", "state_dict", "checkpoint"]:
    is_tensor = (name.startswith(_TENSOR_NAMES) or name.endswith("Storage") for name in names)
    if all(is_tensor):
        return "state_dict"
    return "checkpoint" if is_mapping else "module"


def _is_mapping(start: bytes) -> bool:
    """Return whether the first bytes of a pickle are those of a ``dict`` or an ``OrderedDict``."""
    if start[:1] == _PROTOCOL:
        start = start[2:]
    if start[:1] == _FRAME:
        start = start[9:]
    return start.startswith(_DICT) or b"OrderedDict" in start[:30]


def _names(file: IO[bytes]) -> Iterator[str]:
    """Yield ``module.Class`` for every global that a pickle looks up.

    Module and class of a ``STACK_GLOBAL`` (protocol 4) come from the stack. The last two texts are taken for them, as
    every pickler writes them; a hostile pickle may hide them.
    """
    texts = ["?", "?"]
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL":
            yield str(argument).replace(" ", ".")
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(texts)
        elif isinstance(argument, str):
            texts = [texts[1], argument]


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (*_MALFORMED, zipfile.BadZipFile) as error:
        raise _damaged(path, f"not a complete zip archive ({error})") from error


def _damaged(path: Path, what: str) -> BadInputError:
    return BadInputError(f"{path}: damaged or not a saved model: {what}; save the model again")
