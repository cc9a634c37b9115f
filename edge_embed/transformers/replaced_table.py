"""A compressed layer in place of the input table of a transformers model, and of the output layer that it ties."""

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from edge_embed.errors import BadInputError
from edge_embed.layers.bag import Bag
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.transformers.ties import tie_layers


def replace_table(model: nn.Module, layer: CompressedEmbedding) -> None:
    """Put a compressed layer in the place of the input table of a transformers model, in place.

    An output layer that the model ties to the table becomes a `TiedOutput` of the layer, and keeps its bias. Other
    output layers stay as they are. The rows of the dense table are lost: use this before training. For a trained
    table, use `edge_embed.compress` with ``trainable=True``.

    ``save_pretrained`` stores the tensors of a trainable layer once, for checkpoints of transformers' ``Trainer``.
    ``from_pretrained`` does not read them: create the model, replace its table, and load the tensors into it.

    Args:
        model: a ``PreTrainedModel`` whose input table is a ``nn.Embedding`` [n, d].
        layer: a layer with n rows and d columns, such as `DPQEmbedding`, in the dtype of the table. It moves to the
            device of the table, and takes its mode, training or eval.

    Raises:
        BadInputError: the model has another class, its table is scaled or missing, or the layer is a bag, has other
            sizes or another dtype, or is on the device meta.
    """
    dense = _checked(model, layer)
    changed: Any = model
    output = changed.get_output_embeddings()
    is_tied = getattr(output, "weight", None) is dense.weight
    try:
        changed.set_input_embeddings(layer.to(dense.weight.device).train(dense.training))
    except NotImplementedError as error:  # a model of several parts, such as EncoderDecoderModel
        expected = "expected one with a table of its own: replace that of its parts, such as model.encoder"
        raise BadInputError(f"model: got a {type(model).__name__}, {expected}") from error
    if is_tied:
        changed.set_output_embeddings(TiedOutput(layer, output.bias))
    tie_layers(model)


def _checked(model: nn.Module, layer: CompressedEmbedding) -> nn.Embedding:
    """Return the input table of a model, which a layer can replace."""
    if not isinstance(model, PreTrainedModel):
        raise BadInputError(f"model: got a {type(model).__name__}, expected a PreTrainedModel of transformers")
    if not isinstance(layer, CompressedEmbedding) or isinstance(layer, Bag):
        expected = "expected a compressed layer of rows, such as edge_embed.DPQEmbedding"
        raise BadInputError(f"layer: got a {type(layer).__name__}, {expected}")
    try:
        dense: Any = model.get_input_embeddings()
    except NotImplementedError:  # of images, for example
        dense = None
    if not isinstance(dense, nn.Embedding) or type(dense).forward is not nn.Embedding.forward:
        expected = "expected nn.Embedding, which returns rows as they are"
        raise BadInputError(f"input table of {type(model).__name__}: got a {type(dense).__name__}, {expected}")
    sizes, wanted = [layer.num_embeddings, layer.embedding_dim], list(dense.weight.shape)
    if sizes != wanted:
        raise BadInputError(f"layer: got sizes {sizes}, expected {wanted} of the input table")
    for tensor in layer.parameters():
        if tensor.is_meta and not dense.weight.is_meta:
            raise BadInputError("layer: got tensors on the device meta, expected numbers: create it on another device")
        if tensor.dtype != dense.weight.dtype:
            got = f"layer: got {tensor.dtype}, expected {dense.weight.dtype} of the input table"
            raise BadInputError(f"{got}: convert one of them with .to(dtype); torch.autocast trains in bfloat16")
    return dense
