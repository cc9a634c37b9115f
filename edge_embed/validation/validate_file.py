"""Validation of an exported file, according to its format."""

from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.program.program import Program
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.cause import likely_cause
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.open import validate_pair
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.tflite.validate import validate_tflite
from edge_embed.validation.validate import validate_export


def validate_file(
    program: Program, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
) -> ValidationReport:
    """Compare an ``.onnx`` or ``.tflite`` file with the program, as `validate_export` does."""
    if options.texts is not None and (not isinstance(program, PairProgram) or is_tflite_file(path)):
        raise BadInputError(
            f"texts: got {options.texts}, expected them only for a folder or .onnx file that compress wrote, after the "
            "one that it read: remove the option"
        )
    if isinstance(program, PairProgram):
        report = validate_pair(program, lowered, path, options, progress)
    else:
        validate = validate_tflite if is_tflite_file(path) else validate_export
        report = validate(program, lowered, path, options, progress)
    return replace(report, cause=likely_cause(report, program.source, path))
