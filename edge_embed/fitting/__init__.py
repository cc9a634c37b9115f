"""Post-training compression: layers fitted to trained dense tables without training, one file for each method.

`cores` holds the common parts of `tt` and `tr`; `centroids` and `code_assignment` those of `dpq`; `dictionary` and
`sparse_codes` those of `ant`. `order` computes orders of rows that lower the error of trains and rings. `fidelity`
measures the reconstruction error of every method.
"""
