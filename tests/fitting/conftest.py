"""Real tables of a language model that others trained."""

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

NEEDS_DATA = "EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)"


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the samples' data, unpacked as far as these tests need it."""
    if (packed := os.environ.get("EDGE_EMBED_DATA")) is None:
        pytest.skip(NEEDS_DATA)
    folder = tmp_path_factory.mktemp("data")
    for name in ("ptb-rnnlm", "wikitext2-valtest"):
        with tarfile.open(Path(packed) / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def tables(data: Path) -> dict[str, NDArray[np.float32]]:
    """Return the input and the output table of the language model, [10000, 100]."""
    with np.load(data / "ptb-rnnlm" / "ptb_rnnlm_100.npz") as arrays:
        of_words = {"input": arrays["embed"], "output": arrays["affine_W"].T}
    return {name: np.ascontiguousarray(table, dtype=np.float32) for name, table in of_words.items()}
