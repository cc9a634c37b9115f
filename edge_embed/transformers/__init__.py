"""Compressed models of Hugging Face transformers: ``save_pretrained`` and ``from_pretrained``.

The import of this module registers the quantiser ``edge_embed`` with transformers, which ``from_pretrained`` requires,
and the sparse attention of `edge_embed.transformers.attention`.
No code of a folder runs, and nothing is unpickled.
"""

from edge_embed.extras import named_extras

with named_extras():
    from edge_embed.transformers.attention import learn_alphas, load_alphas, register_attention
    from edge_embed.transformers.config import EdgeEmbedConfig
    from edge_embed.transformers.quantizer import EdgeEmbedQuantizer, attach_quantizer

__all__ = [
    "EdgeEmbedConfig",
    "EdgeEmbedQuantizer",
    "attach_quantizer",
    "learn_alphas",
    "load_alphas",
    "register_attention",
]
