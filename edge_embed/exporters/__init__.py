"""Export of packed programs to target files: a folder per target, a file per method."""

if __name__ != "edge_embed.exporters":
    # The link at the top of a checkout: with two names every module would be loaded twice, and the short name belongs
    # to another project too.
    raise ImportError(f"imported as {__name__!r}, expected 'edge_embed.exporters': use that name")
