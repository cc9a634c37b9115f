"""Packed embedding tables in plain numpy: the form that a device stores, and the exact reference for its results."""

from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.file import load_tables, read_manifest, save_tables
from edge_embed.packed.manifest import Manifest, TableEntry
from edge_embed.packed.packed_form import METHODS, PackedTable, TableShape
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import TieredShape
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import TTShape

__all__ = [
    "METHODS",
    "ANTShape",
    "DPQShape",
    "Manifest",
    "PackedANT",
    "PackedDPQ",
    "PackedTT",
    "PackedTable",
    "PackedTiered",
    "TTShape",
    "TableEntry",
    "TableShape",
    "TieredShape",
    "load_tables",
    "read_manifest",
    "save_tables",
]
