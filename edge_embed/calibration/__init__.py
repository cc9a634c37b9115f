"""Calibration: the stored values of compressed tables, fitted to the outputs of the dense model on examples."""
