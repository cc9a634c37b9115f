"""Check that changed tests still kill the mutants of the source that they killed before the change.

    .venv/bin/python tests/mutants.py REVISION --count 50 --seed 0 --source edge_embed/packed tests/packed/test_dpq.py

The tests of a revision and those of the working tree run in two copies of the working tree, one mutant after another.
The mutants are a seeded sample from the lines that the tests of the revision execute. A mutant changes one place:
another comparison, operator or number, a negated condition, or a removed statement. Tests stop at the first failure,
and fail after a time limit. Exits with 1 if a mutant survives that the tests of the revision kill.
"""

import argparse
import ast
import compileall
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")
_IMPORTED = (
    "faiss hypothesis matplotlib.pyplot onnx.reference onnxruntime onnxscript pytest scipy.stats torch torch._dynamo "
    "torch.distributed torch.onnx ai_edge_litert.interpreter"
).split()
_SLOWER = 5  # times the seconds without a mutant: mutants may never end
_MORE_SECONDS = 20

Change = Callable[[], None]
_SWAPPED: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.Mod: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change in a file of the source, by its number among the changes of the file."""

    file: str
    number: int
    line: int
    what: str


def changes(tree: ast.AST) -> Iterator[tuple[int, str, Change]]:
    """Yield line, description and function of every change of a module; the function applies it to the tree."""
    annotations = {
        id(inside)
        for node in ast.walk(tree)
        for name in ("annotation", "returns")
        for inside in ast.walk(getattr(node, name, None) or ast.Pass())
    }
    for node in ast.walk(tree):
        if id(node) not in annotations:
            yield from _changes_of(node)


def _changes_of(node: ast.AST) -> Iterator[tuple[int, str, Change]]:
    def swap(holder: Any, name: str, value: Any) -> Change:
        return lambda: setattr(holder, name, value)

    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        yield node.lineno, "comparison", swap(node, "ops", [_SWAPPED[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPPED:
        yield node.lineno, "operator", swap(node, "op", _SWAPPED[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node.lineno, "truth", swap(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node.lineno, "one more", swap(node, "value", node.value + 1)
        yield node.lineno, "one less", swap(node, "value", node.value - 1)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.lineno, "condition", swap(node, "test", ast.UnaryOp(ast.Not(), node.test))
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        for at, statement in enumerate(statements if isinstance(statements, list) else []):
            called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            if called or isinstance(statement, ast.AugAssign | ast.Raise):
                yield statement.lineno, "left out", lambda all_=statements, at=at: all_.__setitem__(at, ast.Pass())


def mutated(source: str, mutant: Mutant) -> str:
    """Return the source of a file with the change of a mutant."""
    tree = ast.parse(source)
    list(changes(tree))[mutant.number][2]()
    return ast.unparse(ast.fix_missing_locations(tree))


def in_child(folder: Path, arguments: list[str], limit: float, executed: Path | None = None) -> bool:
    """Return whether tests pass in a forked process, which has not imported the package before."""
    child = os.fork()
    if not child:
        os.setsid()
        _run_tests(folder, arguments, executed)
    end = time.monotonic() + limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)


def _run_tests(folder: Path, arguments: list[str], executed: Path | None) -> None:
    import pytest

    os.chdir(folder)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
    os.environ["PYTHONPATH"] = str(folder)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    lines: set[str] = set()
    if executed is not None:
        sys.settrace(_tracer(str(folder / "edge_embed"), lines))
    code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow", *arguments]))
    if executed is not None:
        sys.settrace(None)
        executed.write_text("\n".join(lines))
    import edge_embed

    os._exit(code if edge_embed.__file__.startswith(str(folder)) else 99)


def _tracer(folder: str, lines: set[str]) -> Any:
    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            lines.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return local

    return lambda frame, _, __: local if frame.f_code.co_filename.startswith(folder) else None


def copies(revision: str, folder: Path) -> list[Path]:
    """Copy the working tree twice, the first copy with the tests of the revision."""
    before, after = folder / "before", folder / "after"
    for copy in (before, after):
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
    shutil.rmtree(before / "tests")
    archive = subprocess.run(["git", "-C", ROOT, "archive", revision, "tests"], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", before], input=archive, check=True)
    for copy in (before, after):
        compileall.compile_dir(copy / "edge_embed", quiet=2)
    return [before, after]


def sample(executed: Path, copy: Path, sources: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants from the executed lines of files and folders."""
    lines = set(executed.read_text().splitlines())
    found = []
    for source in sources:
        for path in [copy / source] if source.endswith(".py") else sorted((copy / source).rglob("*.py")):
            for number, (line, what, _) in enumerate(changes(ast.parse(path.read_text()))):
                if f"{path}:{line}" in lines:
                    found.append(Mutant(str(path.relative_to(copy)), number, line, what))
    return random.Random(seed).sample(found, min(count, len(found)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--keep", default="", help="pytest's -k")
    parser.add_argument("tests", nargs="+")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in _IMPORTED:
        import_module(name)
    tests = [*given.tests, *(["-k", given.keep] if given.keep else [])]
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        trees = copies(given.revision, folder)
        limits = []
        for tree in trees:
            start = time.monotonic()
            assert in_child(tree, tests, 600), f"fails without a mutant:\n{(tree / 'log').read_text()[-3000:]}"
            limits.append(_SLOWER * (time.monotonic() - start) + _MORE_SECONDS)
        in_child(trees[0], tests, 1200, folder / "executed")
        counts, lost = {"killed": 0, "survived": 0}, []
        for mutant in sample(folder / "executed", trees[0], given.source, given.count, given.seed):
            content = mutated((ROOT / mutant.file).read_text(), mutant)
            for tree in trees:
                path = tree / mutant.file
                path.write_text(content)
                for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                    compiled.unlink()
            killed = not in_child(trees[0], tests, limits[0])
            counts["killed" if killed else "survived"] += 1
            if killed and in_child(trees[1], tests, limits[1]):
                lost.append(mutant)
                print("LOST", mutant, flush=True)
            for tree in trees:
                shutil.copy(ROOT / mutant.file, tree / mutant.file)
            print(sum(counts.values()), counts, mutant, "killed" if killed else "survived", file=sys.stderr, flush=True)
    print(f"{given.revision}, seed {given.seed}: killed before {counts['killed']}, survived {counts['survived']}; "
          f"killed before and not now: {len(lost)}")  # fmt: skip
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
