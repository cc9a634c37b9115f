"""The packed forms a file can hold, by method name."""

from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.form import Packed
from edge_embed.packed.tt import PackedTT

METHODS: dict[str, type[Packed]] = {form.method: form for form in (PackedDPQ, PackedANT, PackedTT)}
