"""What an exported file calls things: constants only, so that reading a file does not load torch."""

DOMAIN = "edge_embed"
DOMAIN_VERSION = 1
OPSET = 18
IR_VERSION = 10

# Keys of ModelProto.metadata_props; the first holds the manifest of a packed file.
MANIFEST_KEY = "edge_embed.tables"
VOCABULARY_KEY = "edge_embed.vocabulary"
METADATA_KEY = "edge_embed.metadata"
# Of a file that `compress` wrote in place: how near the rows of its tables are to the dense ones.
FIDELITY_KEY = "edge_embed.fidelity"

# The attribute that says how many bytes a session may take for a node, to be faster. It changes no number but by its
# rounding, and no body reads it.
MEMORY_BYTES = "memory_bytes"

# A tokenizer in front of a model: the domain of its function, its input, and the key of what the file says about it.
TOKENIZER_DOMAIN = "edge_embed.tokenizer"
TOKENIZER_INPUT = "text"
TOKENIZER_KEY = "edge_embed.tokenizer"
