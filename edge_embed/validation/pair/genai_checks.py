"""Checks of a GenAI folder beside its ONNX file: configuration, tokenizer, and the library that the runtime loads.

The library is read and never loaded, because loading runs its code. All paths run the library of this installation.
"""

from onnx import ModelProto

from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import GENAI_CONFIG, GenaiFolder
from edge_embed.importers.genai_tokenizer import NO_TOKENIZER
from edge_embed.inspection.genai_parts import check_configuration, other_bytes, read_folder_library
from edge_embed.report.results.validation import Check
from edge_embed.runtime.library import ENVIRONMENT_NAME
from edge_embed.validation.paths import missing_library

_CONFIGURATION, _TOKENIZER, _LIBRARY = (
    f"{part} of the folder" for part in ("configuration", "tokenizer", "operator library")
)


def folder_checks(folder: GenaiFolder, model: ModelProto) -> tuple[Check, ...]:
    """Return the checks; a fault is a failed one."""
    return _configuration(folder, model), _tokenizer(folder), _library(folder, model)


def _configuration(folder: GenaiFolder, model: ModelProto) -> Check:
    try:
        check_configuration(folder, model)
    except BadInputError as error:
        return Check(_CONFIGURATION, "failed", str(error))
    return Check(_CONFIGURATION, "passed", f"{GENAI_CONFIG} describes {folder.model.name}")


def _tokenizer(folder: GenaiFolder) -> Check:
    """Return the check of a tokenizer that was read with the folder, where a fault is an error."""
    if folder.has_tokenizer:
        return Check(_TOKENIZER, "passed", "its files are complete, and the tokens of texts have rows")
    return Check(_TOKENIZER, "not run", NO_TOKENIZER)


def _library(folder: GenaiFolder, model: ModelProto) -> Check:
    try:
        found = read_folder_library(folder, model)
    except BadInputError as error:
        return Check(_LIBRARY, "failed", str(error))
    if found is None:
        return Check(_LIBRARY, "passed", f"{GENAI_CONFIG} names none: the runtime uses portable bodies")
    facts = f"{folder.library}: {found.facts}"
    if not found.version:
        return Check(_LIBRARY, "not run", f"{facts}: the runtime uses portable bodies of operators of edge-embed")
    if missing_library():
        return Check(_LIBRARY, "not run", f"{facts}; it was read only, because no operator library is installed here")
    if other := other_bytes(found):
        return Check(_LIBRARY, "not run", f"{facts}, {other}, which ran: set {ENVIRONMENT_NAME} to it to run it")
    return Check(_LIBRARY, "passed", f"{facts}, the same as the one that ran here")
