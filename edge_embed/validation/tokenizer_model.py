"""Validation of a file with a tokenizer: the model behind it as any other model, and the tokenizer on texts.

Ids are compared with the library `tokenizers`. The whole file, from texts to outputs, is compared with the training
form on the ids of the library.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import TOKENIZER_DOMAIN, TOKENIZER_INPUT, TOKENIZER_KEY
from edge_embed.exporters.onnx.tokenizer.fuse import FusedTokenizer, plan_tokenizer
from edge_embed.exporters.onnx.tokenizer.source import read_tokenizer
from edge_embed.program.program import Program
from edge_embed.report.results.validation import Check, PathResult, TargetResult
from edge_embed.targets.target import RunOptions, Subject, Target
from edge_embed.validation import paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.model_inputs import ModelCase, run_case
from edge_embed.validation.model_paths import Arrays, compare_target, run_path
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.tokenizer import differences, library_feeds
from edge_embed.validation.tokenizer_texts import texts_for

_NAME = "tokenizer"
_TEXTS, _BATCH = 64, 8  # of the whole model
_FROM_TEXTS = ", from texts"
_PATHS = {f"{paths.PORTABLE}{_FROM_TEXTS}": True, f"{paths.CUSTOM}{_FROM_TEXTS}": False}


# By name of the case: the training form on the library's ids, and the inputs of a session.
TextFeeds = Mapping[str, tuple[ModelCase, dict[str, NDArray[Any]]]]


@dataclass(frozen=True)
class TokenizerResults:
    """Results of the tokenizer of a file.

    Attributes:
        checks: checks of its ids.
        paths: the whole model on every path that accepts texts.
        feeds: the texts that the model ran on; empty if ids were not compared, or differ.
    """

    checks: tuple[Check, ...] = ()
    paths: tuple[PathResult, ...] = ()
    feeds: TextFeeds = field(default_factory=dict)


def behind_tokenizer(exported: ExportedModel, folder: Path) -> ExportedModel:
    """Write the model without its tokenizer into ``folder`` and open it; return the same model if it has none."""
    node = _tokenizer_node(exported)
    if node is None:
        return exported
    model = onnx.ModelProto()
    model.CopyFrom(exported.proto)
    graph, outputs = model.graph, list(node.output)
    made = {value.name: value for value in graph.value_info if value.name in outputs}
    if len(made) < len(outputs):
        raise BadInputError(f"{exported.path}: the output types of its tokenizer are missing: export it again")
    kept = [value for value in graph.input if value.name != TOKENIZER_INPUT]
    _replace(graph.input, [*(made[name] for name in outputs), *kept])
    _replace(graph.value_info, [value for value in graph.value_info if value.name not in outputs])
    _replace(graph.node, [other for other in graph.node if other.domain != TOKENIZER_DOMAIN])
    _replace(model.functions, [function for function in model.functions if function.domain != TOKENIZER_DOMAIN])
    for file in exported.files[1:]:
        shutil.copyfile(file, folder / file.name)  # the ONNX checker accepts no hard links
    path = folder / exported.path.name
    path.write_bytes(model.SerializeToString())
    return ExportedModel(path)


def _replace(field: Any, values: list[Any]) -> None:
    del field[:]
    field.extend(values)


def _tokenizer_node(exported: ExportedModel) -> NodeProto | None:
    return next((node for node in exported.proto.graph.node if node.domain == TOKENIZER_DOMAIN), None)


def compare_tokenizer(program: Program, exported: ExportedModel, options: ValidationOptions) -> TokenizerResults:
    """Compare the tokenizer of a file with the library, and the whole file with the training form.

    Raises:
        BadInputError: a tokenizer is given, and it is damaged or the exported file has none.
    """
    node = _tokenizer_node(exported)
    if node is None and options.tokenizer is not None:
        raise BadInputError(
            f"{exported.path}: got tokenizer {options.tokenizer}, but the file has none: export with --tokenizer"
        )
    if node is None:
        return TokenizerResults()
    if options.tokenizer is None:
        reason = "the file has a tokenizer: to compare ids, give its tokenizer.json with --tokenizer or in the budget"
        return TokenizerResults((Check(_NAME, "not run", reason),))
    source, manifest = read_tokenizer(options.tokenizer), _manifest(exported)
    if source.sha256 != manifest.get("sha256"):
        detail = f"{source.path}: got SHA-256 {source.sha256}, expected {manifest.get('sha256')} as exported"
        return TokenizerResults((Check(_NAME, "failed", detail),))
    fused = plan_tokenizer(source, program, str(manifest.get("ids")))
    return _compare(program, exported, options, fused, _alone(exported, node))


def _compare(
    program: Program, exported: ExportedModel, options: ValidationOptions, fused: FusedTokenizer, alone: onnx.ModelProto
) -> TokenizerResults:
    texts = texts_for(fused.source)
    try:
        different = differences(fused, alone, texts)
    except BadInputError as error:
        return TokenizerResults((Check(_NAME, "failed", str(error)),))
    if different:
        detail = (
            f"other ids than the library tokenizers for {len(different)} batches of {len(texts)} texts; {different[0]}"
        )
        return TokenizerResults((Check(_NAME, "failed", detail),))
    detail = f"{fused.source.kind}: the ids of the library tokenizers for all of {len(texts)} texts"
    feeds = text_feeds(program, fused, texts[:_TEXTS])
    cases = [case for case, _ in feeds.values()]
    found = tuple(
        run_path(name, _opener(program, exported, portable, feeds), program.output_names, cases, options)
        for name, portable in (_PATHS.items() if cases else ())
    )
    return TokenizerResults((Check(_NAME, "passed", detail),), found, feeds)


def from_texts_on_target(
    target: Target, subject: Subject, texts: TextFeeds, options: ValidationOptions, run_options: RunOptions
) -> TargetResult:
    """Run the whole file on a target, from texts to outputs."""
    name, reason = f"{target.name}{_FROM_TEXTS}", ""
    if target.tokenizer == "cannot run":
        reason = "its tokenizer requires onnxruntime-extensions, which edge-embed does not provide for this target"
    elif not texts:
        reason = "its tokenizer was not compared with the library (--tokenizer), or differs: no text has known ids"
    if reason:
        return TargetResult(name, "not run", reason, (), target.evidence, {}, None, {})
    cases, feeds = zip(*texts.values(), strict=True)
    return replace(compare_target(target, subject, list(cases), feeds, options, run_options), name=name)


def _manifest(exported: ExportedModel) -> dict[str, Any]:
    properties = {item.key: item.value for item in exported.proto.metadata_props}
    try:
        found = json.loads(properties.get(TOKENIZER_KEY, "{}"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInputError(f"{exported.path}: {TOKENIZER_KEY} is not a JSON object: export it again")
    return found


def _alone(exported: ExportedModel, node: NodeProto) -> onnx.ModelProto:
    """Return the tokenizer of a file as a separate model."""
    types = {value.name: value for value in exported.proto.graph.value_info}
    text = helper.make_tensor_value_info(TOKENIZER_INPUT, TensorProto.STRING, [None])
    graph = helper.make_graph([node], _NAME, [text], [types[name] for name in node.output])
    functions = [function for function in exported.proto.functions if function.domain == TOKENIZER_DOMAIN]
    opsets = list(exported.proto.opset_import)
    return helper.make_model(graph, ir_version=exported.proto.ir_version, opset_imports=opsets, functions=functions)


def text_feeds(program: Program, fused: FusedTokenizer, texts: list[str]) -> TextFeeds:
    """Run the training form on the library's ids; return it with the inputs of a session, by accepted batch."""
    found: dict[str, tuple[ModelCase, dict[str, NDArray[Any]]]] = {}
    for number, at in enumerate(range(0, len(texts), _BATCH)):
        batch = texts[at : at + _BATCH]
        made = library_feeds(fused, batch)
        inputs = _inputs(program, fused, made, len(batch))
        with suppress(Exception):  # the model's own limits
            case = run_case(program, f"texts {number}", inputs)
            feeds = {name: value for name, value in case.feeds(program).items() if name not in made}
            found[case.name] = (case, {TOKENIZER_INPUT: np.array(batch, dtype=object), **feeds})
    return found


def _inputs(
    program: Program, fused: FusedTokenizer, made: Mapping[str, NDArray[Any]], batch: int
) -> tuple[Tensor, ...]:
    """Return the results of the tokenizer, and the example's values for other inputs, one row per text."""
    of_batch = {fed.declared.shape[0] for fed in fused.fed if fed.role != "flat_ids"}
    inputs = []
    for declared, example in zip(program.inputs, program.example_inputs, strict=True):
        value = example
        if declared.name in made:
            value = torch.from_numpy(made[declared.name]).to(declared.dtype)
        elif declared.shape and declared.shape[0] in of_batch and example.shape[0]:
            value = example[torch.arange(batch) % example.shape[0]]
        inputs.append(value)
    return tuple(inputs)


def _opener(
    program: Program, exported: ExportedModel, portable: bool, feeds: TextFeeds
) -> Callable[[], Callable[[ModelCase], Arrays]]:
    def opener() -> Callable[[ModelCase], Arrays]:
        session = paths.open_session(exported.path, portable)
        return lambda case: paths.run_session(session, program.output_names, feeds[case.name][1], case.name)

    return opener
