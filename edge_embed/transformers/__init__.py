"""Compressed models of Hugging Face transformers: ``save_pretrained`` and ``from_pretrained``.

The import of this module registers the quantiser ``edge_embed`` with transformers, which ``from_pretrained`` requires,
and the sparse attention of `edge_embed.transformers.attention`. `replace_table` puts a layer to train into a model.
No code of a folder runs, and nothing is unpickled.
"""

from edge_embed.extras import named_extras

with named_extras():
    from edge_embed.transformers.attention import learn_alphas, load_alphas, register_attention
    from edge_embed.transformers.config import EdgeEmbedConfig
    from edge_embed.transformers.quantizer import EdgeEmbedQuantizer, attach_quantizer
    from edge_embed.transformers.replaced_table import replace_table

__all__ = [
    "EdgeEmbedConfig",
    "EdgeEmbedQuantizer",
    "attach_quantizer",
    "learn_alphas",
    "load_alphas",
    "register_attention",
    "replace_table",
]
