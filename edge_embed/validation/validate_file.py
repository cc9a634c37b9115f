"""Validation of an exported file, according to its format."""

from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.program.program import Program
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.cause import likely_cause
from edge_embed.validation.exported_texts import exported_texts
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.open import validate_pair
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.tflite.validate import validate_tflite
from edge_embed.validation.validate import validate_export


def validate_file(
    program: Program,
    lowered: LoweredProgram,
    path: Path,
    options: ValidationOptions,
    progress: Progress,
    original: Program | None = None,
) -> ValidationReport:
    """Compare an ``.onnx`` or ``.tflite`` file with the program, as `validate_export` does.

    ``original`` is the program before compression, whose predictions on texts are compared with those of the file.
    """
    if options.texts is not None and (is_tflite_file(path) or not (isinstance(program, PairProgram) or original)):
        raise BadInputError(
            f"texts: got {options.texts}, expected them for a folder or .onnx file that compress wrote, after the one "
            "that it read, or for an exported .onnx file and its model before compression: give that model as "
            "`original`, or leave texts out"
        )
    if isinstance(program, PairProgram):
        report = validate_pair(program, lowered, path, options, progress)
    else:
        texts = None
        if original is not None and options.texts is not None:
            texts = exported_texts(original, path, options.texts, options.tokenizer, progress)
            options = replace(options, tokenizer=None)  # of texts; the file itself has none
        validate = validate_tflite if is_tflite_file(path) else validate_export
        report = validate(program, lowered, path, options, progress)
        report = replace(report, model=replace(report.model, texts=texts))
    return replace(report, cause=likely_cause(report, program.source, path))
