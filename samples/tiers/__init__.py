"""Tiered tables beside every other method at equal bytes, on models that are not trained any further."""
