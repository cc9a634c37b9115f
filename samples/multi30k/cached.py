"""The translator in two parts, which translate word by word without reading earlier words again.

The past of a layer is an input and an output: the normalised states of earlier words, before its self-attention.
"""

from datasets import PADDING
from torch import Tensor, cat, nn

from multi30k.model import Translator


class Encoder(nn.Module):
    """First part, which reads a sentence once.

    Shape:
        source int64 ``[batch, words]`` -> states ``[batch, words, width]``.
    """

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self.translator = translator

    def forward(self, source: Tensor) -> Tensor:
        """Return the states of the words of a sentence."""
        return self.translator.read(source)


class Decoder(nn.Module):
    """Second part, which takes the last word of each translation and scores the next one.

    Shape:
        source int64 ``[batch, words]``, its states ``[batch, words, width]``, last word int64 ``[batch, 1]``, and past
        states ``[batch, past, width]`` of each layer -> logits ``[batch, 1, rows]``, and the states
        ``[batch, past + 1, width]`` of each layer.
    """

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self.translator = translator

    def forward(self, source: Tensor, states: Tensor, word: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Return the logits of the next word, and the past of the next call."""
        decoder, padding = self.translator.decoder, source == PADDING
        x = self.translator.looked_up("target", word, past[0].shape[1])  # [batch, 1, width]
        present = []
        for layer, earlier in zip(decoder.layers, past, strict=True):
            assert isinstance(layer, nn.TransformerDecoderLayer)
            own = layer.norm1(x)
            seen = cat((earlier, own), 1)  # [batch, past + 1, width]
            x = x + layer.self_attn(own, seen, seen, need_weights=False)[0]
            x = x + layer.multihead_attn(layer.norm2(x), states, states, padding, need_weights=False)[0]
            x = x + layer.linear2(layer.activation(layer.linear1(layer.norm3(x))))
            present.append(seen)
        assert decoder.norm is not None
        return self.translator.words(decoder.norm(x)), *present
