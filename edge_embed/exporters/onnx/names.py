"""Names in exported files: constants only, so that reading a file does not load torch."""

DOMAIN = "edge_embed"
DOMAIN_VERSION = 1
OPSET = 18
IR_VERSION = 10

# Lowest versions that run an exported file: the first to read its IR version; the first release of the operator library
# with every operator and attribute; the oldest tested release for tokenizers.
LEAST_ONNXRUNTIME, LEAST_LIBRARY, LEAST_EXTENSIONS = "1.18", "0.1.0", "0.15"

# Keys of ModelProto.metadata_props; the first holds the manifest of a packed file.
MANIFEST_KEY = "edge_embed.tables"
VOCABULARY_KEY = "edge_embed.vocabulary"
METADATA_KEY = "edge_embed.metadata"
# In a file that `compress` wrote in place: the fidelity of the rows of its tables to the dense ones.
FIDELITY_KEY = "edge_embed.fidelity"
# The result for ids out of range, ``error`` or ``nan``; absent if nothing checks ids beside the nodes.
ID_CHECK_KEY = "edge_embed.id_check"

# The attribute with the session memory of a node in bytes. It changes values only by rounding, and no body reads it.
MEMORY_BYTES = "memory_bytes"

# A tokenizer in front of a model: the domain of its function, its input, and the key of its metadata.
TOKENIZER_DOMAIN = "edge_embed.tokenizer"
TOKENIZER_INPUT = "text"
TOKENIZER_KEY = "edge_embed.tokenizer"
