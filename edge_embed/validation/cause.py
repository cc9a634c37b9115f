"""The likely cause of many failed checks: the file was exported from another state of its model."""

import shlex
from pathlib import Path

from edge_embed.files import as_argument
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.as_exported import METADATA

# An export writes hashes and sizes of its model here; a damaged weight does not change them.
_SIGNS, _SIGNS_IN_TFLITE = (METADATA,), ("manifest", "layout")


def likely_cause(report: ValidationReport, source: Path | None, exported: Path) -> str:
    """Return the likely cause of a failed report and its remedy, or an empty string if none is likely.

    Args:
        report: the failed report.
        source: the file of the model, or the original that was compressed in place; None for a module.
        exported: the file that was validated.
    """
    if report.passed:
        return ""
    older = source is not None and _is_older(exported, source)
    signs = _SIGNS_IN_TFLITE if exported.suffix == ".tflite" else _SIGNS
    wrong = {check.name for _, check in report.outcomes() if check.status == "failed"}
    # A pair has file times only; elsewhere hashes decide, because a checkout writes files in any order.
    is_other = older if report.original is not None else not wrong.isdisjoint(signs)
    if not is_other:
        return ""
    age = f", which is newer ({source})" if older else "" if source is None else f" ({source})"
    return f"likely cause: {exported} was made from another state of the model{age}: {_again(report, source, exported)}"


def _is_older(exported: Path, source: Path) -> bool:
    return exported.stat().st_mtime < source.stat().st_mtime


def _again(report: ValidationReport, source: Path | None, exported: Path) -> str:
    if report.original is not None:
        return "compress the original again, with the same settings"
    if source is None:
        return "export again"
    target = "tflite" if exported.suffix == ".tflite" else "onnx"
    files = [as_argument(source), "--target", target, "--output", str(exported), "--force"]
    return f"export again: {shlex.join(['edge-embed', 'export', *files])}"
