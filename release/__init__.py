"""Distributions of a release: `python -m release.wheels` (docs/development/release.md)."""
