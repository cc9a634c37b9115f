"""The packed forms a file can hold, by method name."""

from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.form import Packed

METHODS: dict[str, type[Packed]] = {form.method: form for form in (PackedDPQ,)}
