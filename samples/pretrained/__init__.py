"""Models that others trained: their tables replaced by compressed ones, without training."""
