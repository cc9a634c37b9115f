"""Packed program to target file: a folder a target, a file a method."""

if __name__ != "edge_embed.exporters":
    # By the link at the top of a checkout. Two names would be two copies of every module; the bare one also belongs to another project.
    raise ImportError(f"imported as {__name__!r}, expected 'edge_embed.exporters': use that name")
