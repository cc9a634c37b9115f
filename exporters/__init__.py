"""Packed program to target file: a folder a target, a file a method. Imported as ``edge_embed.exporters``."""

if __name__ != "edge_embed.exporters":
    # Two names would be two copies of every module; the bare one also belongs to another project.
    raise ImportError(f"imported as {__name__!r}, expected 'edge_embed.exporters': use that name")
