"""A bundle whose model accepts texts: its golden pair holds texts, and it carries the tokenizer."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edge_embed
from edge_embed.bundle.manifest import BundleManifest

from .conftest import MEAN_EXAMPLE, Mean


@pytest.mark.parametrize("kind", ["BPE", "BERT uncased"])
def test_golden_pair_holds_texts(kind: str, saved: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "app"
    report = edge_embed.export(Mean(), "onnx", folder, MEAN_EXAMPLE, tokenizer=saved(kind), bundle=True)
    assert [run.status for run in report.golden] == ["passed", "passed"]
    assert (folder / "tokenizer.json").read_bytes() == saved(kind).read_bytes()
    assert BundleManifest.read(folder).requires["onnxruntime_extensions"] == "0.15"
    golden = json.loads((folder / "golden.json").read_text())
    (text,) = golden["inputs"]
    assert (text["name"], text["dtype"], text["shape"]) == ("text", "string", [2])
    opened = edge_embed.open_bundle(folder)
    assert opened.run({"text": np.array(["a", "b", "c"], object)})["output"].shape == (3, 8)
