"""edge-embed: embedding tables that stay compressed from training to the device.

The public names below are lazy: ``import edge_embed`` imports neither torch nor onnx nor a runtime, the first use of a
name does. Submodules are imported by their own path (``edge_embed.packed.dpq``).
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers read it as True; an import of typing would double the time of this import
if TYPE_CHECKING:
    from edge_embed.bundle.check import validate_bundle
    from edge_embed.bundle.opened import OpenedBundle, open_bundle
    from edge_embed.errors import (
        BadInputError,
        EdgeEmbedError,
        IdOutOfRangeError,
        LatencyError,
        OutputError,
        ParityError,
        SizeError,
        TimeLimitError,
    )
    from edge_embed.hub.download import from_pretrained
    from edge_embed.hub.upload import push_to_hub
    from edge_embed.inspection.inspect import inspect
    from edge_embed.layers.activations import Entmax, Entmax15, Sparsemax, TopKSparsemax
    from edge_embed.layers.anchor_search import AnchorSearch
    from edge_embed.layers.ant import ANTEmbedding
    from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
    from edge_embed.layers.attention import SparseMultiheadAttention, use_sparse_attention
    from edge_embed.layers.bag import (
        ANTEmbeddingBag,
        ANTMixtureEmbeddingBag,
        DPQEmbeddingBag,
        IntegerEmbeddingBag,
        TieredEmbeddingBag,
        TREmbeddingBag,
        TTEmbeddingBag,
    )
    from edge_embed.layers.dpq import DPQEmbedding
    from edge_embed.layers.dpq_bottleneck import DPQBottleneck
    from edge_embed.layers.draft_output import DraftOutput, frequent_ids
    from edge_embed.layers.integers import IntegerEmbedding
    from edge_embed.layers.penalty_schedule import PenaltySchedule
    from edge_embed.layers.proximal import ProximalOptimizer
    from edge_embed.layers.shared_dpq import SharedDPQEmbedding
    from edge_embed.layers.tied_output import TiedOutput
    from edge_embed.layers.tier_arguments import tiers_of_counts
    from edge_embed.layers.tiered import TieredEmbedding
    from edge_embed.layers.tr import TREmbedding
    from edge_embed.layers.tt import TTEmbedding
    from edge_embed.layers.yogi import Yogi
    from edge_embed.lowering.layered_module import load
    from edge_embed.ops.entmax import entmax, entmax15, sparsemax, topk_sparsemax
    from edge_embed.ops.entmax_loss import entmax_loss, sparsemax_loss
    from edge_embed.packed.ant import PackedANT
    from edge_embed.packed.dpq import PackedDPQ
    from edge_embed.packed.tiered import PackedTiered
    from edge_embed.packed.tt import PackedTT
    from edge_embed.runtime.library import get_delegate_path, get_library_path
    from edge_embed.runtime.session import create_session
    from edge_embed.validation.options import ValidationOptions
    from edge_embed.workflow import check, compress, export, lower, save, validate

    __version__: str

__all__ = [
    "ANTEmbedding",
    "ANTEmbeddingBag",
    "ANTMixtureEmbedding",
    "ANTMixtureEmbeddingBag",
    "AnchorSearch",
    "BadInputError",
    "DPQBottleneck",
    "DPQEmbedding",
    "DPQEmbeddingBag",
    "DraftOutput",
    "EdgeEmbedError",
    "Entmax",
    "Entmax15",
    "IdOutOfRangeError",
    "IntegerEmbedding",
    "IntegerEmbeddingBag",
    "LatencyError",
    "OpenedBundle",
    "OutputError",
    "PackedANT",
    "PackedDPQ",
    "PackedTT",
    "PackedTiered",
    "ParityError",
    "PenaltySchedule",
    "ProximalOptimizer",
    "SharedDPQEmbedding",
    "SizeError",
    "SparseMultiheadAttention",
    "Sparsemax",
    "TREmbedding",
    "TREmbeddingBag",
    "TTEmbedding",
    "TTEmbeddingBag",
    "TiedOutput",
    "TieredEmbedding",
    "TieredEmbeddingBag",
    "TimeLimitError",
    "TopKSparsemax",
    "ValidationOptions",
    "Yogi",
    "__version__",
    "check",
    "compress",
    "create_session",
    "entmax",
    "entmax15",
    "entmax_loss",
    "export",
    "frequent_ids",
    "from_pretrained",
    "get_delegate_path",
    "get_library_path",
    "inspect",
    "load",
    "lower",
    "open_bundle",
    "push_to_hub",
    "save",
    "sparsemax",
    "sparsemax_loss",
    "tiers_of_counts",
    "topk_sparsemax",
    "use_sparse_attention",
    "validate",
    "validate_bundle",
]

_MODULE_OF = {
    "ANTEmbedding": "edge_embed.layers.ant",
    "ANTEmbeddingBag": "edge_embed.layers.bag",
    "ANTMixtureEmbedding": "edge_embed.layers.ant_mixture",
    "ANTMixtureEmbeddingBag": "edge_embed.layers.bag",
    "AnchorSearch": "edge_embed.layers.anchor_search",
    "BadInputError": "edge_embed.errors",
    "DPQBottleneck": "edge_embed.layers.dpq_bottleneck",
    "DPQEmbedding": "edge_embed.layers.dpq",
    "DPQEmbeddingBag": "edge_embed.layers.bag",
    "DraftOutput": "edge_embed.layers.draft_output",
    "EdgeEmbedError": "edge_embed.errors",
    "Entmax": "edge_embed.layers.activations",
    "Entmax15": "edge_embed.layers.activations",
    "IdOutOfRangeError": "edge_embed.errors",
    "IntegerEmbedding": "edge_embed.layers.integers",
    "IntegerEmbeddingBag": "edge_embed.layers.bag",
    "LatencyError": "edge_embed.errors",
    "OpenedBundle": "edge_embed.bundle.opened",
    "OutputError": "edge_embed.errors",
    "PackedANT": "edge_embed.packed.ant",
    "PackedDPQ": "edge_embed.packed.dpq",
    "PackedTT": "edge_embed.packed.tt",
    "PackedTiered": "edge_embed.packed.tiered",
    "ParityError": "edge_embed.errors",
    "PenaltySchedule": "edge_embed.layers.penalty_schedule",
    "ProximalOptimizer": "edge_embed.layers.proximal",
    "SharedDPQEmbedding": "edge_embed.layers.shared_dpq",
    "SizeError": "edge_embed.errors",
    "SparseMultiheadAttention": "edge_embed.layers.attention",
    "Sparsemax": "edge_embed.layers.activations",
    "TREmbedding": "edge_embed.layers.tr",
    "TREmbeddingBag": "edge_embed.layers.bag",
    "TTEmbedding": "edge_embed.layers.tt",
    "TTEmbeddingBag": "edge_embed.layers.bag",
    "TiedOutput": "edge_embed.layers.tied_output",
    "TieredEmbedding": "edge_embed.layers.tiered",
    "TieredEmbeddingBag": "edge_embed.layers.bag",
    "TimeLimitError": "edge_embed.errors",
    "TopKSparsemax": "edge_embed.layers.activations",
    "ValidationOptions": "edge_embed.validation.options",
    "Yogi": "edge_embed.layers.yogi",
    "check": "edge_embed.workflow",
    "compress": "edge_embed.workflow",
    "create_session": "edge_embed.runtime.session",
    "entmax": "edge_embed.ops.entmax",
    "entmax15": "edge_embed.ops.entmax",
    "entmax_loss": "edge_embed.ops.entmax_loss",
    "export": "edge_embed.workflow",
    "frequent_ids": "edge_embed.layers.draft_output",
    "from_pretrained": "edge_embed.hub.download",  # needs no torch for bundles
    "get_delegate_path": "edge_embed.runtime.library",
    "get_library_path": "edge_embed.runtime.library",
    "inspect": "edge_embed.inspection.inspect",  # needs no torch
    "load": "edge_embed.lowering.layered_module",
    "lower": "edge_embed.workflow",
    "open_bundle": "edge_embed.bundle.opened",  # needs no torch
    "push_to_hub": "edge_embed.hub.upload",  # needs no torch for bundles
    "save": "edge_embed.workflow",
    "sparsemax": "edge_embed.ops.entmax",
    "sparsemax_loss": "edge_embed.ops.entmax_loss",
    "tiers_of_counts": "edge_embed.layers.tier_arguments",
    "topk_sparsemax": "edge_embed.ops.entmax",
    "use_sparse_attention": "edge_embed.layers.attention",
    "validate": "edge_embed.workflow",
    "validate_bundle": "edge_embed.bundle.check",  # needs no torch
}


if not TYPE_CHECKING:  # a type checker would accept every wrong name otherwise

    def __getattr__(name: str) -> object:
        """Load a public name on first use and keep it."""
        if name == "__version__":
            value = import_module("importlib.metadata").version("edge-embed")
        elif name in _MODULE_OF:
            value = getattr(_loaded(_MODULE_OF[name]), name)
        else:
            suggested = import_module("edge_embed.errors").suggested(name, __all__)
            public = ", ".join(__all__)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {suggested}public names are {public}")
        globals()[name] = value
        return value

    def _loaded(module: str) -> object:
        """Return a module of this package, or raise an error that names the extra that it needs."""
        with import_module("edge_embed.extras").named_extras():
            return import_module(module)


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return __all__
