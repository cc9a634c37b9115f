"""Lowered embedding tables in plain numpy: what a phone stores, and the exact oracle for what it computes."""

from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.file import load_tables, read_manifest, save_tables
from edge_embed.packed.form import Packed, TableShape
from edge_embed.packed.manifest import Manifest, TableEntry
from edge_embed.packed.methods import METHODS

__all__ = [
    "METHODS",
    "DPQShape",
    "Manifest",
    "Packed",
    "PackedDPQ",
    "TableEntry",
    "TableShape",
    "load_tables",
    "read_manifest",
    "save_tables",
]
