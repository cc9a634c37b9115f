"""Tables that are trained already, as layers: what they learned, without training them again; one file a method.

Besides, `edge_embed.compression.order`: orders of rows in which trains and rings come nearer to a table. What
`tt` and `tr` share is in `cores`; what `dpq` is made of, in `centroids` and `nearest`, and `ant` in `dictionary` and
`sparse_codes`. `module` finds the tables of a model, `plan`, `search` and `setting` say how they become smaller, and
`fidelity` how near that is.
"""
