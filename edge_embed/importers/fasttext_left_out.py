"""What of a fastText model is no part of a table of words: the output layer, labels, and what makes other words."""

from collections.abc import Iterator

from edge_embed.importers.fasttext_model import PRUNED, FastTextModel
from edge_embed.report.results.model_source import LeftOut

_NODE_BYTES = 3 * 4  # of a tree of labels: both branches and the parent, of 4 bytes each


def parts_left_out(model: FastTextModel, num_columns: int) -> tuple[LeftOut, ...]:
    """The parts of a model, with what they take.

    Args:
        model: whose matrix was read to its end.
        num_columns: of the matrix.
    """
    return (*_output(model), *_ngrams(model, num_columns))


def _output(model: FastTextModel) -> Iterator[LeftOut]:
    training = model.training
    rest = model.file.left
    if not training.is_supervised:
        if rest:
            yield LeftOut("output layer", f"of training (loss {training.loss})", None, rest)
        return
    of = f"of a classifier of {training.num_labels:,} labels, loss {training.loss}: the model gives vectors, no labels"
    yield LeftOut("output layer", of, training.num_labels, rest)
    yield LeftOut("labels", "names and counts", training.num_labels, training.label_bytes)
    if training.loss == "hs":
        nodes = max(0, training.num_labels - 1)
        yield LeftOut("hierarchy", "a tree over the labels, made of their counts", nodes, nodes * _NODE_BYTES)


def _ngrams(model: FastTextModel, num_columns: int) -> Iterator[LeftOut]:
    """The n-grams of characters and words that have buckets, by what other words and texts are made of."""
    training, ngrams = model.training, model.ngrams
    kinds = [f"{ngrams.shortest} to {ngrams.longest} characters"] if ngrams.longest > 0 else []
    kinds += [f"2 to {training.most_word_ngrams} words"] if training.most_word_ngrams > 1 else []
    buckets = model.num_rows - len(model.words)
    if not kinds or not buckets:
        return
    of = f"n-grams of {' and of '.join(kinds)}"
    if model.is_quantised:  # the rows of buckets are in the table
        nbytes = max(0, training.num_pruned) * PRUNED.size
        yield LeftOut("n-gram map", f"from {of} to rows behind those of the words", buckets, nbytes)
    else:
        nbytes = 4 * buckets * num_columns
        yield LeftOut("n-gram buckets", f"rows of {of}, for words that are not in the dictionary", buckets, nbytes)
