"""Distils MiniLM into a static encoder: one row for each token, as model2vec does.

    e_i = mean over the states of "[CLS] token_i [SEP]"          row_i = s_i * P (e_i - mean of e)
    s_i = a / (a + p_i),   p_i = (1 / (i + 2)) / sum_j 1 / (j + 2),   a = 1e-4

P are the first 256 principal components, and p_i is the frequency of a token by Zipf's law: ids of this tokenizer are
sorted by frequency. s_i is the smooth inverse frequency of Arora et al., A Simple but Tough-to-Beat Baseline (2017).
The distillation of model2vec 0.10 itself requires an older version of transformers.
"""

import json
from typing import Any

import numpy as np
import torch
from model2vec import StaticModel
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sentence_encoder.model import load
from tokenizers import Tokenizer

_SMOOTHING = 1e-4
_COLUMNS = 256
_BATCH = 256


def distil() -> StaticModel:
    """Return a static model of MiniLM, with rows [30522, 256].

    Raises:
        click.ClickException: if the package with MiniLM is missing.
    """
    model, tokenizer = load()
    words = plain(tokenizer.backend_tokenizer)
    ends = tokenizer.cls_token_id, tokenizer.sep_token_id
    states = token_states(model.encoder, words.get_vocab_size(), ends)
    return StaticModel(components(states) * smoothing(len(states)), words, normalize=True)


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer without padding, truncation and special tokens around a text."""
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    return Tokenizer.from_str(json.dumps(content | {"padding": None, "truncation": None, "post_processor": None}))


@torch.inference_mode()
def token_states(encoder: Any, count: int, ends: tuple[int, int]) -> NDArray[np.float32]:
    """Return the mean state of each token between two others, [count, columns]."""
    first, last = (torch.full((count,), token) for token in ends)
    texts = torch.stack([first, torch.arange(count), last], 1)  # [count, 3]
    means = []
    for batch in track(texts.split(_BATCH), "tokens", console=Console(stderr=True)):
        states = encoder(input_ids=batch, attention_mask=torch.ones_like(batch)).last_hidden_state
        means.append(states.mean(1))
    found: NDArray[np.float32] = torch.cat(means).numpy()
    return found


def components(rows: NDArray[np.float32], columns: int = _COLUMNS) -> NDArray[np.float32]:
    """Return the first principal components of rows, [rows, columns]."""
    centred = rows - rows.mean(0)
    _, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)  # ascending
    found: NDArray[np.float32] = (centred @ vectors[:, ::-1][:, :columns]).astype(np.float32)
    return found


def smoothing(count: int) -> NDArray[np.float32]:
    """Return the factor of each row, [count, 1]."""
    return (_SMOOTHING / (_SMOOTHING + frequencies(count))).astype(np.float32)[:, None]


def frequencies(count: int) -> NDArray[np.float64]:
    """Return the frequencies of tokens by Zipf's law, [count]."""
    inverse = 1 / np.arange(2, count + 2)
    shares: NDArray[np.float64] = inverse / inverse.sum()
    return shares
