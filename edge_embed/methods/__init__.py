"""The compression methods: their names and the places of their parts in every stage."""

from edge_embed.methods.ant import ANT
from edge_embed.methods.dpq import DPQ, DPQ_SCALED, OPQ, ROWS
from edge_embed.methods.registry import Collected, Method, Parts, most_library_bytes, register, unregister, words_of
from edge_embed.methods.tiered import TIERED
from edge_embed.methods.tt import LOW_RANK, TR, TT
from edge_embed.methods.words import Words

__all__ = ["Collected", "Method", "Parts", "Words", "most_library_bytes", "register", "unregister", "words_of"]

for _method in (DPQ, OPQ, ANT, TT, TR, LOW_RANK, ROWS, DPQ_SCALED, TIERED):
    register(_method)
