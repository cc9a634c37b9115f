"""Configuration, tokenizer and operator library of a GenAI folder, compared with its ONNX file."""

from collections.abc import Iterable

from onnx import ModelProto

from edge_embed.compression.onnx.genai_agreement import check_agreement, check_table, name_of_ids
from edge_embed.errors import BadInputError, EdgeEmbedError, located
from edge_embed.exporters.onnx.model_file import parse_model
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.importers.genai_folder import CUSTOM_OPS_LIBRARY, GENAI_CONFIG, GenaiFolder
from edge_embed.importers.genai_tokenizer import NO_TOKENIZER
from edge_embed.inspection.onnx_tables import OPERATORS, nodes_of, tables_of_nodes
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.runtime.library import get_library_path
from edge_embed.runtime.library_file import LibraryFile, read_library

_OF_IDS = {"Add", "Cast", "Less", "Where"}


def describe_parts(folder: GenaiFolder) -> tuple[list[str], list[str]]:
    """Return facts about the parts, and their faults."""
    model, faults = parse_model(folder.model), [] if folder.has_tokenizer else [NO_TOKENIZER]
    try:
        check_configuration(folder, model)
    except BadInputError as error:
        faults.append(str(error))
    try:
        found = read_folder_library(folder, model)
    except BadInputError as error:
        return [], [*faults, str(error)]
    if found is None and not operators_of(model):
        return [], faults
    facts = "none, so the runtime uses portable bodies" if found is None else f"{folder.library}: {found.facts}"
    facts += f", {other}" if found is not None and (other := other_bytes(found)) else ""
    return [f"{GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY}: {facts}"], faults


def other_bytes(library: LibraryFile) -> str:
    """Return how a library of edge-embed differs from the installed one; empty if both are equal or one is missing."""
    try:
        installed = get_library_path()
    except EdgeEmbedError:
        return ""
    is_other = library.version and library.content != installed.read_bytes()
    return f"with other bytes than {installed}, the library of this installation" if is_other else ""


def check_configuration(folder: GenaiFolder, model: ModelProto) -> None:
    """Check that a configuration describes a decoder, its packed tables included.

    Raises:
        BadInputError: it is that of another ONNX file.
    """
    check_agreement(folder, model)
    nodes, ids = nodes_of(model), _ids_of_tokens(model, name_of_ids(folder))
    of_tokens = {node.input[-1] for node in nodes if node.input[0] in ids}
    for name, table in tables_of_nodes(nodes, Weights(folder.model, model)).items():
        if table.shape is not None:
            sizes = table.shape.num_embeddings, table.shape.embedding_dim
            looks_up = not of_tokens.isdisjoint(table.initializers.values())
            check_table(folder, name, sizes, looks_up, any(use == "logits" for use, _ in table.nodes))


def _ids_of_tokens(model: ModelProto, name: str) -> set[str]:
    """Return the names of the ids of tokens, also after the nodes that count negative ids from the end."""
    found = {name}
    for node in model.graph.node:
        if node.op_type in _OF_IDS and not found.isdisjoint(node.input):
            found.update(node.output)
    return found


def operators_of(model: ModelProto) -> list[str]:
    """Return the types of our operators in a model."""
    return sorted({node.op_type for node in nodes_of(model)} & set(OPERATORS))


def read_folder_library(folder: GenaiFolder, model: ModelProto) -> LibraryFile | None:
    """Read the library that the runtime loads from the folder; none if the configuration names none.

    Raises:
        BadInputError: it does not fit the model or this machine, or the model requires one.
    """
    operators, path = operators_of(model), folder.library_path
    if path is None:
        _check_bodies(model, operators)
        return None
    with located(f"{GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY} {folder.library!r:.200}"):
        found = read_library(path, sorted(set(map(_kernel_of, operators))))
    if not found.version:
        _check_bodies(model, operators)
    return found


def _kernel_of(operator: str) -> str:
    """Return the operator with a kernel: the bodies of variants, such as with scales of rows, call the plain one."""
    method, _, use = OPERATORS[operator]
    return min((name for name, (other, _, its) in OPERATORS.items() if (other, its) == (method, use)), key=len)


def _check_bodies(model: ModelProto, operators: Iterable[str]) -> None:
    bodies = {function.name for function in model.functions if function.domain == DOMAIN}
    if lacking := [name for name in operators if name not in bodies]:
        raise BadInputError(
            f"{GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY}: got no library of edge-embed, expected one for {lacking[0]}, which "
            "has no portable body: copy the library that edge_embed.get_library_path() names"
        )
