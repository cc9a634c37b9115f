"""Benchmark `edge-embed bench FOLDER FOLDER ...`: generation with folders of ONNX Runtime GenAI, in rounds."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.figures import cpu_clock
from edge_embed.bench.generation import PROMPT, Decoder, FirstToken, NewTokens
from edge_embed.bench.prompts import prompt_feeds
from edge_embed.bench.run import Progress, load, versions
from edge_embed.compression.onnx.foreign_model import ForeignModel, read_foreign
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.importers.genai_folder import CUSTOM_OPS_LIBRARY, GENAI_CONFIG, GenaiFolder, is_genai, read_genai
from edge_embed.packed.sizes import check_count
from edge_embed.report.results.bench_folders import FolderBench, FolderSession, TokenTime
from edge_embed.report.results.session_growth import SessionGrowth
from edge_embed.runtime.library import get_library_path
from edge_embed.validation.machine import machine
from edge_embed.validation.paths import CUSTOM, PORTABLE
from edge_embed.validation.sizes import session_growth
from edge_embed.validation.timing import Feeds, Times, interval_of, ratio_of, time_rounds

LIBRARY, BODY = "operator library", "portable body"
_WARMUP = 1
_METHOD = (
    "All sessions are open in one process. Each round runs them in random order on the same new random prompt of {} "
    "tokens: first all with one token, then all with {} tokens behind it. Generation is greedy. Times: medians over "
    "rounds, and medians of ratios within rounds, of {} time. Memory: growth of a fresh process by a session of ONNX "
    "Runtime on one thread and its first call, the prompt. Files: all files of the folder, with the operator library "
    "only where it runs."
)


@dataclass(frozen=True)
class FolderGrid:
    """Options of the benchmark.

    Attributes:
        threads: threads of every session.
        rounds: number of rounds in the figures.
        seed: seed of prompts and order.
        prompt_tokens: tokens of each prompt.
        new_tokens: tokens that are generated after the first one in a round.

    Raises:
        BadInputError: if a value is invalid.
    """

    threads: int = 1
    rounds: int = 10
    seed: int = 0
    prompt_tokens: int = 32
    new_tokens: int = 16

    def __post_init__(self) -> None:
        check_count("threads", self.threads, most=os.cpu_count() or 1)
        check_count("prompt_tokens", self.prompt_tokens)
        check_count("new_tokens", self.new_tokens)


@dataclass(frozen=True)
class _Session:
    """A folder with one kind of operators; ``operators`` is empty if the folder has none of edge-embed."""

    folder: GenaiFolder
    file: ForeignModel
    operators: str

    @property
    def library(self) -> Path | None:
        return get_library_path() if self.operators == LIBRARY else None

    @property
    def name(self) -> str:
        return f"{self.folder.path}, {self.operators}"

    @property
    def nbytes(self) -> int:
        files = [path for path in self.folder.path.rglob("*") if path.is_file() and path.name != self.folder.library]
        return sum(path.stat().st_size for path in (*files, *([self.library] if self.library else [])))


def bench_folders(
    paths: Sequence[Path], grid: FolderGrid, progress: Progress = lambda name, done, total: None
) -> FolderBench:
    """Measure folders of ONNX Runtime GenAI; the first is the baseline.

    A folder with packed tables is measured with the operator library of this installation, and with portable bodies.

    Args:
        paths: at least two folders with vocabularies of one size.
        grid: options.
        progress: called with (step, done, total).

    Raises:
        BadInputError: a folder is damaged, has another library of operators or too short a context, or cannot be
            opened, or the folders cannot be compared.
        EdgeEmbedError: there is no operator library, and a folder has packed tables.
    """
    sessions = [session for folder in _read(paths, grid) for session in _sessions(folder)]
    rows = sessions[0].folder.config["model"]["vocab_size"]
    state = machine(grid.threads) | versions("onnxruntime-genai") | {"load": load()}
    random = np.random.default_rng(grid.seed)

    def draw() -> list[Feeds]:
        return [{PROMPT: random.integers(0, rows, grid.prompt_tokens)}]

    memory = []
    prompt = draw()[0][PROMPT]
    for session in sessions:
        memory.append(_memory(session, prompt))
        progress("memory", len(memory), len(sessions))
    with ExitStack() as stack:
        opened = {}
        for session in sessions:
            opened[session.name] = Decoder(session.folder, session.file.files, session.library, grid.threads, stack)
            progress("opened", len(opened), len(sessions))
        clock = cpu_clock(grid.threads)
        total = 2 * (grid.rounds + _WARMUP)
        drawn = iter(range(total))

        def next_prompt() -> list[Feeds]:
            progress("rounds", next(drawn), total)
            return draw()

        given = next_prompt, grid.rounds, _WARMUP, random
        first = time_rounds({name: FirstToken(one) for name, one in opened.items()}, *given, cpu_clock=clock)
        contenders = {name: NewTokens(one, grid.new_tokens) for name, one in opened.items()}
        times = time_rounds(contenders, *given, cpu_clock=clock)
        del opened, contenders
    clock_name = "CPU" if grid.threads == 1 else "wall"
    return FolderBench(
        seed=grid.seed,
        rounds=grid.rounds,
        threads=grid.threads,
        prompt_tokens=grid.prompt_tokens,
        new_tokens=grid.new_tokens,
        machine=state,
        method=_METHOD.format(grid.prompt_tokens, grid.new_tokens, clock_name),
        sessions=tuple(
            _figures(session, sessions[0], growth, memory[0], (times, first), random)
            for session, growth in zip(sessions, memory, strict=True)
        ),
    )


def _read(paths: Sequence[Path], grid: FolderGrid) -> list[GenaiFolder]:
    """Read folders that can be compared."""
    if other := next((path for path in paths if not is_genai(path)), None):
        found = f"has no {GENAI_CONFIG}" if other.exists() else "does not exist"
        raise BadInputError(f"{other}: {found}: expected folders of ONNX Runtime GenAI, or one file with tables")
    if len(paths) < 2:
        raise BadInputError(f"{paths[0]}: got one folder, expected the baseline first, such as the dense model, and "
                            "the folders to compare with it")  # fmt: skip
    places = [path.resolve() for path in paths]
    if len(set(places)) < len(places):
        twice = next(path for path, place in zip(paths, places, strict=True) if places.count(place) > 1)
        raise BadInputError(f"{twice}: got the folder twice: leave one out")
    folders = [read_genai(path) for path in paths]
    rows = folders[0].config["model"]["vocab_size"]
    length = grid.prompt_tokens + 1 + grid.new_tokens
    for folder in folders:
        with located(str(folder.path)):
            model = folder.config["model"]
            if model["vocab_size"] != rows:
                raise BadInputError(
                    f"got a vocabulary of {model['vocab_size']}, expected {rows} as in {paths[0]}: compare folders of "
                    "one model"
                )
            if length > (most := model.get("context_length", length)):
                raise BadInputError(
                    f"got {length} tokens, expected at most its context length {most}: ask for fewer prompt_tokens or "
                    "new_tokens"
                )
    return folders


def _sessions(folder: GenaiFolder) -> list[_Session]:
    file = read_foreign(folder.model)
    if any(item.domain == DOMAIN for item in file.model.opset_import):
        return [_Session(folder, file, LIBRARY), _Session(folder, file, BODY)]
    if folder.library:
        raise BadInputError(
            f"{folder.path}: {GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY}: got {folder.library!r:.80}, expected none or that "
            "of edge-embed: bench runs no library of others"
        )
    return [_Session(folder, file, "")]


def _memory(session: _Session, prompt: NDArray[np.int64]) -> SessionGrowth:
    feeds = prompt_feeds(session.folder, session.file.model, prompt)
    growth = session_growth(session.folder.model, feeds, CUSTOM if session.library else PORTABLE)
    return replace(growth, path=session.operators)


def _figures(
    session: _Session,
    baseline: _Session,
    growth: SessionGrowth,
    base_growth: SessionGrowth,
    times: tuple[Mapping[str, Times], Mapping[str, Times]],
    random: np.random.Generator,
) -> FolderSession:
    is_baseline = session is baseline

    def timed(found: Mapping[str, Times]) -> TokenTime:
        own, base = found[session.name], found[baseline.name]
        return TokenTime(
            cpu_seconds=interval_of(own.cpu, random),
            wall_seconds=interval_of(own.wall, random),
            cpu_ratio=None if is_baseline else ratio_of(own.cpu, base.cpu, random),
            wall_ratio=None if is_baseline else ratio_of(own.wall, base.wall, random),
        )

    def ratio(own: int | None, base: int | None) -> float | None:
        return None if is_baseline or own is None or not base else own / base

    token, first_token = map(timed, times)
    return FolderSession(
        folder=str(session.folder.path),
        operators=session.operators,
        token=token,
        first_token=first_token,
        memory=growth,
        private_ratio=ratio(growth.private, base_growth.private),
        resident_ratio=ratio(growth.resident, base_growth.resident),
        bytes=session.nbytes,
        bytes_ratio=ratio(session.nbytes, baseline.nbytes),
    )
