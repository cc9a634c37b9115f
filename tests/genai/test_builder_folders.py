"""Folders that the model builder writes are compressed, and generate in unmodified ONNX Runtime GenAI."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_embed import workflow
from edge_embed.validation.pair.validate import DENSE

pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is missing: pip install 'edge-embed[genai]'")
pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[transformers]'")

from .build_folders import FORMS, ROWS, SHAPES
from .folders import build_folders
from .generation import Generated, generate

pytestmark = pytest.mark.slow
PROMPTS, LENGTH = 20, 64
SOME_LONG = [pytest.param(name, marks=pytest.mark.long) if name in ("qwen3", "phi3") else name for name in SHAPES]
SIZES: dict[str, Any] = {
    "dpq": {"num_codes": 64, "num_groups": 64},
    "ant": {"num_anchors": 64, "nonzeros": 4.0},
}
# Largest difference of logits, as a part of the largest logit: sums in another order.
TOLERANCE = {"fp32": 1e-5, "int4": 1e-5, "fp16": 4e-3}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build_folders(folder)
    return folder


def compress(folder: Path, output: Path, library: bool, method: str = "dpq") -> Any:
    """Compress the tables of lookups and output layers: one shared table, or two."""
    names = [] if "-tied-" in folder.name else ["model.embed_tokens", "lm_head.MatMul"]
    return workflow.compress(folder, method, output=output, library=library, modules=names, **SIZES[method]).report


def difference(first: list[Generated], second: list[Generated]) -> float:
    """Return the largest difference of logits, as a part of the largest logit."""
    pairs = [(one.logits, other.logits) for one, other in zip(first, second, strict=True)]
    return max(float(np.abs(a - b).max()) for a, b in pairs) / max(float(np.abs(a).max()) for a, _ in pairs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SOME_LONG)
def test_folder_of_builder_generates_equal_tokens_with_library_and_body(
    tmp_path: Path, built: Path, shape: str, form: str
) -> None:
    folder = built / f"{shape}-{form}"
    report = compress(folder, tmp_path / "small", library=True)
    compress(folder, tmp_path / "body", library=False)
    tables = [(table.num_embeddings, table.method, table.uses) for table in report.tables]
    assert tables == ([(ROWS, "dpq", 2)] if form.startswith("tied") else [(ROWS, "dpq", 1)] * 2)
    with_library, with_body = (generate(tmp_path / name, PROMPTS, LENGTH, ROWS) for name in ("small", "body"))
    assert [one.tokens for one in with_library] == [one.tokens for one in with_body]
    assert len({token for one in with_body for token in one.tokens}) >= 20
    assert difference(with_library, with_body) < TOLERANCE[form.split("-")[1]]
    for name in ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "small" / name).read_bytes() == (folder / name).read_bytes()


def test_shared_table_is_stored_once(tmp_path: Path, built: Path) -> None:
    for form in ("tied-fp32", "tied-int4"):
        report = compress(built / f"llama-{form}", tmp_path / form, library=True)
        stored = (tmp_path / form / "model.onnx.data").stat().st_size
        dense = (built / f"llama-{form}" / "model.onnx.data").stat().st_size
        fidelity = report.tables[0].fidelity
        assert fidelity is not None
        assert stored < dense - fidelity.dense_bytes + fidelity.packed_bytes + 32 * 4096  # padding of tensors to pages


def test_native_operators_run_in_genai(tmp_path: Path, built: Path) -> None:
    """A kernel that cannot be chosen stops the folder with the library, and not the one without."""
    compress(built / "llama-tied-fp32", tmp_path / "small", library=True)
    compress(built / "llama-tied-fp32", tmp_path / "body", library=False)
    code = "import sys; from generation import generate; print(len(generate(sys.argv[1], 1, 2, 100)))"
    environment = {**os.environ, "EDGE_EMBED_FORCE_ISA": "bogus", "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", code]
    runs = {
        name: subprocess.run(
            [*command, str(tmp_path / name)], env=environment, capture_output=True, text=True, check=False
        )
        for name in ("small", "body")
    }
    assert (runs["body"].returncode, runs["body"].stdout) == (0, "1\n")
    assert runs["small"].returncode != 0
    assert "bogus" in runs["small"].stderr


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("llama-tied-int4", "dpq"),
        ("qwen3-untied-fp32", "dpq"),
        ("gemma3-untied-fp32", "dpq"),
        ("phi3-tied-int4", "ant"),  # last bits of its rows depend on the path
    ],
)
def test_compressed_folder_of_builder_is_validated(tmp_path: Path, built: Path, name: str, method: str) -> None:
    compress(built / name, tmp_path / "small", library=True, method=method)
    report = workflow.validate(built / name, tmp_path / "small", iterations=2)
    assert report.passed, report.failures()
    assert len(report.model.cases) >= 4
    assert not report.model.left_out
    (dense,) = (path for path in report.model.paths if path.name == DENSE)
    assert max(output.max_abs_error for output in dense.outputs) < 1e-4  # the original's rows: only sums differ
