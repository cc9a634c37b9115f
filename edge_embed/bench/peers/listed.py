"""All peers, by the library that they need; a new one gets its line here."""

from collections.abc import Mapping

from edge_embed.bench.peers import faiss_pq, native, pytorch, runtime, scipy_csr, tflite
from edge_embed.bench.peers.peer import Peer

PEERS: Mapping[str, tuple[Peer, ...]] = {
    "onnxruntime": runtime.PEERS,
    "torch": pytorch.PEERS,
    "scipy": scipy_csr.PEERS,
    "faiss": faiss_pq.PEERS,
    "copy": native.PEERS,
    "tflite": tflite.PEERS,
}

# Our contenders, and the empty calls with their overhead: one of each for every use.
OURS = (runtime.CUSTOM, native.KERNEL, tflite.OPERATORS)
EMPTY = (runtime.EMPTY, native.EMPTY, tflite.EMPTY)
