"""The packed forms a file can hold, by method name."""

from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable

METHODS: Parts[type[PackedTable]] = Parts("packed")
