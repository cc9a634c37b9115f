"""Packed program to target file: a folder a target, a file a method."""

if __name__ != "edge_embed.exporters":
    # The link at the top of a checkout: two names would be two copies of every module, and the bare one belongs to
    # another project too.
    raise ImportError(f"imported as {__name__!r}, expected 'edge_embed.exporters': use that name")
