"""Models from other authors, whose tables are replaced by compressed ones without training."""
