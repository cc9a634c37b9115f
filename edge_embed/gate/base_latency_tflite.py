"""Latency of a ``.tflite`` file against an earlier one, both in LiteRT in one process; rules as in `base_latency`.

The measurement covers the whole model, with its operators and with the delegate. Tables are not cut out. A model with
little beside its tables is also called with many ids, so that tables take most of the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.gate.base_latency import BASE, CANDIDATE, RULES, SharedComputation, confirmed
from edge_embed.gate.budget import LatencyBudget
from edge_embed.gate.environment import library_hash
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.program.program import Program
from edge_embed.report.results.check import MODEL, BaseResult, Comparison, Side
from edge_embed.runtime.library import get_delegate_path
from edge_embed.steps import step
from edge_embed.targets.target import NotRunError
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.targets.tflite.runtimes import LITERT
from edge_embed.validation import latency, model_inputs
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.tflite.litert_model import BoundModel
from edge_embed.validation.tflite.signatures import fixed_sizes
from edge_embed.validation.timing import Feeds

METHOD = f"CPU clock of the single thread, in LiteRT. {RULES}"
_DELEGATE = f"{MODEL} with the delegate"
_MANY_IDS = 4096
_NOT_FRESH = "memory and opening are measured for ONNX Runtime only"


def tflite_sides(exported: Path, base: Path) -> Mapping[str, Path]:
    """Return base and candidate.

    Raises:
        BadInputError: a file is no TFLite model.
        NotRunError: LiteRT is not installed.
    """
    if lacks := LITERT.lacks():
        raise NotRunError(lacks[0].what)
    files = {BASE: base, CANDIDATE: exported}
    for path in files.values():
        read_tflite(path)
    return files


def compare_tflite(files: Mapping[str, Path], program: Program, budget: LatencyBudget, seed: int) -> BaseResult:
    """Measure both sides.

    Args:
        files: files of the sides, by name.
        program: the training form, which defines the inputs.
        budget: number of rounds, and threshold.
        seed: seed of inputs and order.
    """
    library = _delegate_hash()
    sides = (
        Side(name, str(path), library or "none", None, None, None, None, _NOT_FRESH) for name, path in files.items()
    )
    return BaseResult(METHOD, tuple(sides), tuple(_comparisons(files, program, budget, seed, bool(library))))


def _comparisons(
    files: Mapping[str, Path], program: Program, budget: LatencyBudget, seed: int, delegate: bool
) -> Iterator[Comparison]:
    random = np.random.default_rng(seed)
    fixed = fixed_sizes(program, read_tflite(files[CANDIDATE]))
    (case, *_), _ = model_inputs.make_cases(program, random, fixed=fixed[:1])
    cases: dict[int | None, ModelCase] = {None: case}
    many = model_inputs.large_case(program, random, _MANY_IDS)
    if many is not None and not fixed and _takes(files[CANDIDATE], many.feeds(program)):
        cases[_MANY_IDS] = many
    all_rows = _all_rows(program, cases[_MANY_IDS]) if _MANY_IDS in cases else []
    for name in (MODEL, _DELEGATE) if delegate else (MODEL,):
        bind = partial(_bind, files, name == _DELEGATE, all_rows)
        for items, chosen in cases.items():
            yield confirmed(SharedComputation(name, items, latency.model_drawer(program, chosen, random), bind), budget)


def _bind(
    files: Mapping[str, Path], delegate: bool, first: Sequence[Feeds], side: str, feeds: Feeds, calls: int
) -> BoundModel:
    """Prepare a side that has run on some inputs first.

    Raises:
        RuntimeError: LiteRT or the delegate refuses the file, which validation has found too.
    """
    try:
        model = LiteRtModel(files[side], delegate)
    except BadInputError as error:
        raise RuntimeError(str(error)) from error
    for one in first:
        _run(model, one)
    return BoundModel(model, feeds, calls)


def _all_rows(program: Program, case: ModelCase) -> list[Feeds]:
    """Return ids that together read every row: the first read of a mapped page costs more than the lookup."""
    bounds, feeds = model_inputs.id_bounds(program), case.feeds(program)
    return [
        {name: ((start + np.arange(ids.size)) % bounds[name]).astype(ids.dtype).reshape(ids.shape)
         for name, ids in feeds.items()}
        for start in range(0, max(bounds.values()), min(ids.size for ids in feeds.values()))
    ]  # fmt: skip


def _takes(path: Path, feeds: Feeds) -> bool:
    """Return whether a model runs on these ids; a model that computes with ids may refuse them."""
    try:
        _run(LiteRtModel(path), feeds)
    except (RuntimeError, ValueError):
        return False
    return True


def _run(model: LiteRtModel, feeds: Feeds) -> None:
    with step("call before the timed calls"):
        model.call(feeds)


def _delegate_hash() -> str:
    """Return the SHA-256 of the delegate, empty if there is none."""
    try:
        return library_hash(get_delegate_path())
    except EdgeEmbedError:
        return ""
