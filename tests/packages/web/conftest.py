"""The npm package edge-embed-web, installed from its archive into an empty project, and what runs it."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from web_cases import HERE

from edge_embed.report.results.packaged import PackageReport

TIME_LIMIT = 120


@pytest.fixture(scope="session")
def archive(packaged: Callable[[str], Any]) -> Path:
    """Return the archive in a package for the web."""
    (path,) = packaged("web").folder.glob("*.tgz")
    return Path(path)


@pytest.fixture(scope="session")
def web_report(packaged: Callable[[str], Any]) -> PackageReport:
    return packaged("web").report


@pytest.fixture(scope="session")
def project(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty project with the package."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm or Node.js is missing: apt-get install nodejs npm")
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{ "name": "project", "private": true, "type": "module" }')
    command = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", archive]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with packed tables, and native results of every use."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("native kernels of other processors fuse multiplications and additions")
    folder = tmp_path_factory.mktemp("cases")
    environment = os.environ | {"EDGE_EMBED_FORCE_ISA": "portable"}
    command = [sys.executable, HERE / "web_cases.py", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def run_node(project: Path) -> Callable[..., Any]:
    """Return a function that runs a module in the project, and parses what it prints."""

    def run(source: str, *arguments: object) -> Any:
        path = project / "script.mjs"
        path.write_text(source)
        command = ["node", str(path), *map(str, arguments)]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with exported models."""
    from web_models import main

    folder = tmp_path_factory.mktemp("exported")
    main(folder)
    return folder
