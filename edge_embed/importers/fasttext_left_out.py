"""Parts of a fastText model outside a table of words: the output layer, labels, and n-grams for other words."""

from collections.abc import Iterator

from edge_embed.importers.fasttext_model import PRUNED, FastTextModel
from edge_embed.report.results.model_source import LeftOut

_NODE_BYTES = 3 * 4  # of a tree of labels: two branches and the parent, 4 bytes each


def parts_left_out(model: FastTextModel, num_columns: int) -> tuple[LeftOut, ...]:
    """Return the unused parts of a model with their sizes.

    Args:
        model: a model whose matrix was read to its end.
        num_columns: columns of the matrix.
    """
    return (*_output(model), *_ngrams(model, num_columns))


def _output(model: FastTextModel) -> Iterator[LeftOut]:
    training = model.training
    rest = model.file.left
    if not training.is_supervised:
        if rest:
            yield LeftOut("output layer", f"of training (loss {training.loss})", None, rest)
        return
    of = f"of a classifier of {training.num_labels:,} labels, loss {training.loss}: the model returns only vectors"
    yield LeftOut("output layer", of, training.num_labels, rest)
    yield LeftOut("labels", "names and counts", training.num_labels, training.label_bytes)
    if training.loss == "hs":
        nodes = max(0, training.num_labels - 1)
        yield LeftOut("hierarchy", "a tree over the labels, built from their counts", nodes, nodes * _NODE_BYTES)


def _ngrams(model: FastTextModel, num_columns: int) -> Iterator[LeftOut]:
    """Yield the n-grams of characters and words with buckets, which give vectors of other words and texts."""
    training, ngrams = model.training, model.ngrams
    kinds = [f"{ngrams.shortest} to {ngrams.longest} characters"] if ngrams.longest > 0 else []
    kinds += [f"2 to {training.most_word_ngrams} words"] if training.most_word_ngrams > 1 else []
    buckets = model.num_rows - len(model.words)
    if not kinds or not buckets:
        return
    of = f"n-grams of {' and of '.join(kinds)}"
    if model.is_quantised:  # the table contains the rows of buckets
        nbytes = max(0, training.num_pruned) * PRUNED.size
        yield LeftOut("n-gram map", f"from {of} to the rows after those of the words", buckets, nbytes)
    else:
        nbytes = 4 * buckets * num_columns
        yield LeftOut("n-gram buckets", f"rows of {of}, for words outside the dictionary", buckets, nbytes)
