"""Import rules of pyproject.toml: the package keeps them, and the check finds violations."""

import os
import shutil
import subprocess
import sys
import sysconfig
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def package_copy(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package that a test may change."""
    shutil.copytree(ROOT / "edge_embed", tmp_path / "edge_embed", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    # -S: without site, neither an editable install nor a wheel shadows the tree.
    # Only site-packages: some packages add folders with a module that has the name of a standard module.
    packages = {sysconfig.get_path("purelib"), *(path for path in sys.path if Path(path).name == "site-packages")}
    search_path = os.pathsep.join([str(tree), *packages])
    command = "from importlinter.cli import lint_imports_command as run; run()"
    arguments = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [sys.executable, "-S", "-c", command, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_rules_hold_on_package() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_imports_have_no_cycles() -> None:
    graph = grimp.build_graph("edge_embed", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    in_order = list(TopologicalSorter(imported).static_order())  # a CycleError names the modules
    assert len(in_order) == len(imported) > 500


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("packed/dpq.py", "import torch", "The packed form is numpy only"),
        ("packed/dpq.py", "from edge_embed.layers import dpq", "Imports go down only"),
        ("layers/dpq.py", "import onnxruntime", "Training, capture and lowering know no target"),
        ("report/results/check.py", "from edge_embed.report.views import check", "Results do not know how they look"),
        ("runtime/library.py", "import torch", "The runtime side works where torch"),
        ("exporters/onnx/__init__.py", "import onnxruntime", "Exporters write files and run nothing"),
        ("exporters/onnx/__init__.py", "from edge_embed import cli", "Imports go down only"),
    ],
)
def test_forbidden_import_breaks_its_rule(package_copy: Path, module: str, statement: str, contract: str) -> None:
    path = package_copy / "edge_embed" / module
    path.write_text(f"{path.read_text()}\n{statement}\n")
    result = lint_imports(package_copy)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), result.stdout


def test_module_without_layer_breaks_rules(package_copy: Path) -> None:
    (package_copy / "edge_embed" / "utils.py").write_text('"""Nowhere in the table."""\n')
    result = lint_imports(package_copy)
    assert result.returncode == 1
    assert "edge_embed.utils" in result.stdout
