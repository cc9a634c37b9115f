"""Gate of a pull request: sizes, parity and latency of an exported model against a budget and an earlier state."""
