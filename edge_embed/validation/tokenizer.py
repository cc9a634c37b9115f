"""Comparison of an exported tokenizer with the library `tokenizers`: every id must be the same."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.tokenizer.fuse import FusedTokenizer, plan_tokenizer, tokenizer_model
from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource, read_tokenizer
from edge_embed.program.program import Program, array
from edge_embed.report.results.exported import ExportedTokenizer
from edge_embed.runtime.extensions import get_extensions_path
from edge_embed.targets.process import finish_program, last_line
from edge_embed.targets.script import script_command
from edge_embed.validation import tokenizer_run
from edge_embed.validation.model_inputs import id_bounds
from edge_embed.validation.tokenizer_texts import texts_for

_RUNTIME = "onnxruntime-extensions"
_TIME_LIMIT = 120
_BATCH = 8
_REFUSED = "run the tokenizer in front of the model instead"


def fit_tokenizer(path: Path, program: Program, chosen: str | None) -> tuple[FusedTokenizer, ExportedTokenizer]:
    """Read a tokenizer, choose the inputs that it replaces and check that the model accepts its results.

    Args:
        path: the ``tokenizer.json``.
        program: the model.
        chosen: name of the input for ids; None selects the only possible one.

    Raises:
        BadInputError: the tokenizer is damaged or not supported, has ids that the model's table lacks, has other tokens
            than the model's vocabulary, or would compute other ids than the library.
        EdgeEmbedError: a package is not installed.
    """
    source = read_tokenizer(path)
    fused = plan_tokenizer(source, program, chosen)
    rows = id_bounds(program).get(fused.ids)
    if rows is None:
        raise BadInputError(
            f"input {fused.ids}: it selects rows of no table: name another input with --tokenizer-input"
        )
    if source.num_ids > rows:
        raise BadInputError(
            f"{path}: got a tokenizer with {source.num_ids:,} ids, expected at most {rows:,}, the rows of the table "
            f"that input {fused.ids} looks up: give the tokenizer of the model's training"
        )
    _check_vocabulary(source, program)
    return fused, ExportedTokenizer(
        source.kind, source.sha256, source.num_ids, fused.ids, source.batching.pad_id, source.batching.max_length,
        check_tokenizer(fused),
    )  # fmt: skip


def _check_vocabulary(source: TokenizerSource, program: Program) -> None:
    """Check that a model with a vocabulary has the same tokens."""
    for number, token in enumerate(program.vocabulary or ()):
        got = source.library.id_to_token(number)
        if got is not None and got != token:
            raise BadInputError(
                f"{source.path}: id {number} is {got!r:.40}, expected {token!r:.40} of the vocabulary of the model: "
                "give the tokenizer of its training"
            )


def check_tokenizer(fused: FusedTokenizer) -> int:
    """Run a tokenizer as it would be exported, before anything is written.

    Returns:
        The number of compared texts.

    Raises:
        BadInputError: the tokenizer computes other ids than the library, or does not run; states on how many texts.
        EdgeEmbedError: onnxruntime-extensions is not installed.
    """
    texts = texts_for(fused.source)
    try:
        different = differences(fused, tokenizer_model(fused), texts)
    except BadInputError as error:
        raise BadInputError(f"{fused.source.path}: {error}: {_REFUSED}") from error
    if different:
        raise BadInputError(
            f"{fused.source.path}: {_RUNTIME} returns other ids than the library tokenizers for "
            f"{len(different)} of {len(texts)} texts; {different[0]}: {_REFUSED}"
        )
    return len(texts)


def differences(fused: FusedTokenizer, model: onnx.ModelProto, texts: list[str]) -> list[str]:
    """Return every batch for which a tokenizer computes other inputs than the library, alone and with others, in words.

    Args:
        fused: the tokenizer in the library, and the inputs that it replaces.
        model: ``text`` -> those inputs.
        texts: the texts to compare.

    Raises:
        BadInputError: the model does not run, or ends the process.
    """
    batches = [[text] for text in texts]
    batches += [texts[at : at + _BATCH] for at in range(0, len(texts), _BATCH)]
    found = []
    for batch, got in zip(batches, _run(model, batches), strict=True):
        expected = library_feeds(fused, batch)
        wrong = [name for name, array in expected.items() if got[name] != array.tolist()]
        if wrong:
            got_ids, expected_ids = str(got[wrong[0]]), str(expected[wrong[0]].tolist())
            found.append(f"{ascii(batch)[:80]}: {wrong[0]}: got {got_ids:.80}, expected {expected_ids:.80}")
    return found


def _run(model: onnx.ModelProto, batches: list[list[str]]) -> list[dict[str, Any]]:
    library = str(get_extensions_path())
    with tempfile.TemporaryDirectory() as folder:
        path, texts = Path(folder) / "tokenizer.onnx", Path(folder) / "texts.json"
        path.write_bytes(model.SerializeToString(deterministic=True))
        texts.write_text(json.dumps(batches), encoding="utf-8")
        command = script_command(tokenizer_run.__file__, path, library, texts)
        done = finish_program(command, _TIME_LIMIT, what=_RUNTIME)
    if done.status is None:
        raise BadInputError(f"{_RUNTIME} exceeds the time limit of {_TIME_LIMIT} s")
    if done.status < 0:
        raise BadInputError(f"{_RUNTIME} ended with signal {-done.status}")
    if done.status:
        raise BadInputError(f"{_RUNTIME} refuses it ({last_line(done.complaints)})")
    found: list[dict[str, Any]] = json.loads(done.printed)
    return found


def library_feeds(fused: FusedTokenizer, texts: list[str]) -> dict[str, NDArray[Any]]:
    """Return the inputs that the library `tokenizers` computes from texts, by name.

    If no text has an id, rows have one place for padding, as in the exported tokenizer.
    """
    found = fused.source.library.encode_batch(texts)
    width = max(1, *(len(one.ids) for one in found))
    pad = fused.source.batching.pad_id

    def rows(values: list[list[int]], filler: int) -> NDArray[np.int64]:
        return np.array([[*row, *[filler] * (width - len(row))] for row in values], np.int64)

    ids, mask = rows([one.ids for one in found], pad), rows([one.attention_mask for one in found], 0)
    made = {
        "ids": ids,
        "attention_mask": mask,
        "token_type_ids": rows([one.type_ids for one in found], 0),
        "lengths": mask.sum(1),
        "flat_ids": ids[mask == 1],
        "offsets": mask.sum(1).cumsum() - mask.sum(1),
    }
    return {
        fed.declared.name: made[fed.role].astype(array(torch.empty(0, dtype=fed.declared.dtype)).dtype)
        for fed in fused.fed
    }
