"""Loading of a model file from any tool; the content and not the name determines its kind."""

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.program.archive import Archive
from edge_embed.program.archive_extras import identifier_of
from edge_embed.program.capture import ExampleInputs, write_archive
from edge_embed.program.checkpoint import read_checkpoint
from edge_embed.program.file_kind import is_onnx, is_safetensors, kind_in
from edge_embed.program.find_weights import open_checkpoint
from edge_embed.program.foreign_pickle import foreign_pickle, is_old_torch_save
from edge_embed.program.input_spec import dimension_names, dynamic_shapes, make_examples
from edge_embed.program.module_file import WITHOUT_MODEL, load_module, unpickle_module
from edge_embed.program.program import Program, ProgramInput
from edge_embed.program.reader import MODEL, program_in, read_program
from edge_embed.program.state_dict import Factory, load_weights
from edge_embed.program.without_weights import without_weights

_PICKLE = b"\x80"
_WITH_MODEL = "--model package.module:function"
_SAVE_INSTEAD = "give a file from edge_embed.save(model, path, example_inputs)"
_FILE_OR_FOLDER = "give the path of a saved model, or a folder with config.json"


def load_program(
    path: Path,
    inputs: Sequence[ProgramInput] = (),
    allow_pickle: bool = False,
    factory: Factory | None = None,
    weights: str | None = None,
) -> Program:
    """Read a model from a file of `edge_embed.save`, ``torch.export.save`` or ``torch.save``.

    Args:
        path: the file.
        inputs: inputs of the model, for ``torch.save``, which stores no example inputs.
        allow_pickle: whether to run code from a ``torch.save`` file that cannot be read otherwise.
        factory: function that makes the module, for a file of weights alone.
        weights: path of the weights in a checkpoint, such as ``ema.module``.

    Raises:
        BadInputError: if the file is damaged, hostile or not a model (the message names its kind), or the inputs do
            not fit the model.
    """
    if factory is None:
        program = _load(path, inputs, allow_pickle)
    else:
        _start_of(path)
        loaded = load_weights(factory, path, weights, allow_pickle)
        program = _capture(path, loaded.module, inputs)
        program.facts = loaded.facts
    program.source = path
    return program


def _load(path: Path, inputs: Sequence[ProgramInput], allow_pickle: bool) -> Program:
    start = _start_of(path)
    kind = kind_in(path)
    if kind is not None:
        raise BadInputError(f"{path}: {kind}")
    if not start.startswith(b"PK"):
        if start.startswith(_PICKLE) and allow_pickle:
            return _capture(path, unpickle_module(path), inputs)
        raise BadInputError(f"{path}: {_foreign(path, start)}")
    archive = Archive(path)
    if MODEL in archive:
        if inputs:
            raise BadInputError(f"{path}: is a saved program with its own example inputs: remove --input")
        return program_in(archive)
    if "data.pkl" not in archive:
        raise BadInputError(f"{path}: is a zip archive without a model: {_SAVE_INSTEAD}")
    try:
        module = load_module(archive)
    except BadInputError as error:
        if not allow_pickle:
            _refuse_weights(path)
            raise error from None
        module = unpickle_module(path)
    return _capture(path, module, inputs)


def _start_of(path: Path) -> bytes:
    if path.is_dir() or not path.exists():
        kind = kind_in(path)
        missing = "there is no such file" if not path.is_dir() else f"got a folder, expected a file: {_FILE_OR_FOLDER}"
        raise BadInputError(f"{path}: {kind or missing}")
    if not path.is_file():
        raise BadInputError(f"{path}: got a device, expected a file: {_FILE_OR_FOLDER}")
    try:
        if not path.stat().st_size:  # also files of /proc, whose reading may block
            return b""
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error


def _refuse_weights(path: Path) -> None:
    """Raise for a checkpoint: weights that need a module, with or without other content, or other content alone."""
    try:
        content = read_checkpoint(path)
        checkpoint = open_checkpoint(content)
    except BadInputError:
        return
    if (other := without_weights(content, checkpoint)) is not None:
        raise BadInputError(f"{path}: {other}")
    if checkpoint.tensors and checkpoint.is_mapping:
        raise BadInputError(f"{path}: {WITHOUT_MODEL}")


def _foreign(path: Path, start: bytes) -> str:
    """Return the kind of a file that is not an archive of torch."""
    if start.startswith(_PICKLE):
        if not is_old_torch_save(path):
            return str(foreign_pickle(path))
        _refuse_weights(path)
        return (
            "is a bare pickle (the torch.save format before 1.6), which can run code: refused; "
            f"{_SAVE_INSTEAD}, or use --allow-pickle, which runs code from the file, if you trust its author"
        )
    if is_safetensors(path):
        return f"is a safetensors file, weights without a model: name a function that returns the model, {_WITH_MODEL}"
    if path.suffix == ".onnx" or is_onnx(start):
        return f"is an exported ONNX file: {_SAVE_INSTEAD}"
    return f"is neither a saved model nor a file of word vectors: {_SAVE_INSTEAD}"


class _PatientFile(io.BufferedWriter):
    """File that accepts every write and reports errors afterwards.

    torch's archive writer finishes the archive while a write error passes through it, and aborts the process if that
    fails too.
    """

    _error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write until the first error."""
        if self._error is None:
            try:
                return super().write(data)
            except OSError as error:
                self._error = error
        return memoryview(data).nbytes

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error


def write_program(module: nn.Module, path: Path, example_inputs: ExampleInputs, *options: Any, **named: Any) -> Program:
    """Trace a module into an archive and read that back: later stages do not depend on the module's origin.

    Args:
        module: any module.
        path: file to write; errors do not name it, as it may be a temporary one.
        example_inputs: as for `write_archive`.
        options: as for `write_archive`.
        named: as for `write_archive`.

    Raises:
        BadInputError: if the module cannot be traced, uses operators that cannot be read back, or does not run on its
            own example inputs: it fails now rather than on another machine.
    """
    try:
        with _PatientFile(io.FileIO(path, "w")) as file:
            write_archive(module, file, example_inputs, *options, **named)
            file.check()
        program = read_program(path)
        program.check_example()
    except BadInputError as error:
        raise BadInputError(str(error).removeprefix(f"{path}: ")) from error
    return program


def capture_program(module: nn.Module, example_inputs: ExampleInputs, *options: Any, **named: Any) -> Program:
    """Return the program of a module through a temporary file; arguments as for `write_program`."""
    with tempfile.TemporaryDirectory() as folder:  # weights stay mapped after the folder is removed
        return write_program(module, Path(folder) / "model.pt", example_inputs, *options, **named)


def rewrite_program(program: Program, path: Path) -> Program:
    """Write a program with a changed graph into an archive and read that back, as `write_program`."""
    inputs = program.inputs
    traced = {declared.name: identifier_of(declared.name) for declared in inputs}
    return write_program(
        program.module.with_input_names([*traced.values()]),
        path,
        program.example_inputs,
        {traced[declared.name]: declared.traced for declared in inputs},
        program.vocabulary,
        program.metadata,
        {traced[declared.name]: _dynamic_names(declared) for declared in inputs},
        program.output_names,
        {identifier: name for name, identifier in traced.items() if identifier != name},
    )


def _dynamic_names(declared: ProgramInput) -> dict[int, str]:
    return {at: size for at, size in enumerate(declared.shape) if isinstance(size, str)}


def _capture(path: Path, module: nn.Module, inputs: Sequence[ProgramInput]) -> Program:
    try:
        examples = make_examples(module, inputs)
        return capture_program(module, examples, dynamic_shapes(inputs), dimension_names=dimension_names(inputs))
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except Exception as error:  # code of the layers, with attributes from the file
        raise BadInputError(f"{path}: the stored module fails ({error!s:.200}): save it again") from error
