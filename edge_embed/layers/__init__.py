"""Training layers, one file for each method."""
