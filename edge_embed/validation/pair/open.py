"""Opening and validation of a file that was compressed in place and its original, both of one format."""

import filecmp
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import GenaiFolder
from edge_embed.inspection.inspect import is_onnx_file, is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.onnx_pair import open_onnx_pair
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.pair.tflite_pair import open_tflite_pair
from edge_embed.validation.pair.validate import validate_onnx_pair
from edge_embed.validation.pair.validate_tflite import validate_tflite_pair


def is_runtime_file(path: Path) -> bool:
    """Return whether a runtime opens files of this format, so that the file can be the original of a pair."""
    return is_onnx_file(path) or is_tflite_file(path)


@contextmanager
def open_pair(
    original: Path, compressed: Path, folder: GenaiFolder | None = None
) -> Iterator[tuple[PairProgram, LoweredProgram]]:
    """Open two ONNX or two TFLite files as a model for validation.

    Args:
        original: a file of any tool.
        compressed: the output of `edge-embed compress` for it.
        folder: the GenAI folder of the output, if it is part of one; its other parts are checked too.

    Raises:
        BadInputError: one of them is damaged, or the second was not made from the first.
    """
    for path, expected in (
        (original, "an original file"),
        (compressed, f"the file that compress wrote from {original}"),
    ):
        if not path.is_file():
            found = "is not a regular file" if path.exists() else "there is no such file"
            raise BadInputError(f"{path}: {found}, expected {expected}")
    kinds = [(is_onnx_file(path), is_tflite_file(path)) for path in (original, compressed)]
    if kinds[0] != kinds[1]:
        raise BadInputError(
            f"{compressed}: has another format than {original}: give an original and the file that `edge-embed "
            "compress` wrote from it, both .onnx or both .tflite; or a .pt file, then its exported file"
        )
    if original.samefile(compressed) or filecmp.cmp(original, compressed, shallow=False):
        raise BadInputError(f"{compressed}: is the same file as {original}: give the original, then the compressed one")
    opening = open_tflite_pair(original, compressed) if kinds[0][1] else open_onnx_pair(original, compressed, folder)
    with opening as opened:
        yield opened


def validate_pair(
    program: PairProgram, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
) -> ValidationReport:
    """Compare a compressed file with its original; arguments and errors are those of `validate_export`."""
    validate = validate_tflite_pair if is_tflite_file(path) else validate_onnx_pair
    return validate(program, lowered, path, options, progress)
