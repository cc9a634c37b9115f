"""Missing packages of extras: code that needs none of them works, and all other code names the extra to install.

The packages are hidden from the imports of another process; `test_packaging.py` tests an environment without them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed

GOLDEN = Path(__file__).parent / "golden"
EXPORT = ("torch", "onnx", "onnx_ir", "onnxscript")

HIDING = """
import os
from importlib.machinery import PathFinder

def find_spec(cls, name, *rest):
    return None if name.partition(".")[0] in os.environ["HIDDEN"].split() else found(name, *rest)

found = PathFinder.find_spec
PathFinder.find_spec = classmethod(find_spec)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs Python without some packages; processes that it starts lack them too."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(HIDING)

    def run(*arguments: str | Path, without: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "hiding"), "HIDDEN": " ".join(without)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of an ONNX file with a small table."""
    model = nn.Sequential(edge_embed.DPQEmbedding(20, 6, num_codes=4, num_groups=3))
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    edge_embed.export(model, "onnx", path, example_inputs=(torch.arange(4)[None],))
    return path


def test_runtime_and_inspect_work_without_torch_and_onnx(run: Run, exported: Path) -> None:
    code = f"""
import numpy as np, edge_embed
session = edge_embed.create_session({str(exported)!r})
rows = session.run(None, {{session.get_inputs()[0].name: np.arange(4)[None]}})[0]
table = edge_embed.inspect({str(GOLDEN / "dpq_v1.safetensors")!r}, verify=True).tables[0]
print(rows.tolist(), table.hash_status, edge_embed.get_library_path(), edge_embed.PackedDPQ.__name__)
"""
    result = run("-c", code, without=EXPORT)
    session = edge_embed.create_session(exported)
    rows = session.run(None, {session.get_inputs()[0].name: torch.arange(4)[None].numpy()})[0]
    assert result.stdout == f"{rows.tolist()} matches {edge_embed.get_library_path()} PackedDPQ\n", result.stderr


@pytest.mark.parametrize(
    ("without", "use", "package", "extra"),
    [
        (EXPORT, "edge_embed.export(None, 'onnx', 'model.onnx')", "torch", "export"),
        (EXPORT, "edge_embed.DPQEmbedding", "torch", "export"),
        (EXPORT, f"edge_embed.inspect({str(GOLDEN / 'dpq_vq_program.pt')!r})", "torch", "export"),
        (("onnxscript",), "edge_embed.export", "onnxscript", "export"),
        (("onnx",), "edge_embed.inspect(FILE)", "onnx", "inspect"),
        (("onnxruntime",), "edge_embed.create_session", "onnxruntime", "runtime"),
        (("huggingface_hub",), "edge_embed.push_to_hub", "huggingface-hub", "hub"),
        (("huggingface_hub",), "edge_embed.from_pretrained('a/b')", "huggingface-hub", "hub"),
    ],
)
def test_function_without_its_package_names_extra(
    run: Run, exported: Path, without: tuple[str, ...], use: str, package: str, extra: str
) -> None:
    code = f"""
import edge_embed
FILE = {str(exported)!r}
try:
    {use}
except edge_embed.EdgeEmbedError as error:
    print(error.exit_code, error)
"""
    result = run("-c", code, without=without)
    remedy = f'python -m pip install "edge-embed[{extra}]"'
    assert result.stdout == f"1 this requires the package {package}, which is not installed: {remedy}\n", result.stderr


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("export", GOLDEN / "dpq_vq_program.pt", "--target", "onnx", "--output", "model.onnx"), "torch", "export"),
        (("inspect", "FILE", "--json"), "onnx", "inspect"),
        (("bench", "--help"), "", ""),
    ],
)
def test_command_without_its_package_names_extra(
    run: Run, exported: Path, tmp_path: Path, arguments: tuple[str | Path, ...], package: str, extra: str
) -> None:
    given = [exported if argument == "FILE" else argument for argument in arguments]
    result = run("-c", "from edge_embed.cli import run; run()", *given, without=EXPORT)
    if not extra:
        assert (result.returncode, result.stderr) == (0, "")
        return
    remedy = f'python -m pip install "edge-embed[{extra}]"'
    message = f"this requires the package {package}, which is not installed: {remedy}"
    assert (result.returncode, result.stderr) == (1, f"Error: {message}\n")
    assert not (tmp_path / "model.onnx").exists()
    if "--json" in arguments:
        assert json.loads(result.stdout) == {"error": message, "exit_code": 1}


def test_missing_module_of_user_stays_module_error(run: Run) -> None:
    from edge_embed.extras import named_extras

    with pytest.raises(ModuleNotFoundError, match="no_such_module"), named_extras():
        import no_such_module  # noqa: F401
