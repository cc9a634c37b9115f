"""Tables that are trained already, as layers: what they learned, without training them again; one file a method.

What `tt` and `tr` share is in `cores`; what `dpq` is made of, in `centroids` and `code_assignment`, and `ant` in
`dictionary` and `sparse_codes`. `order` finds orders of rows in which trains and rings come nearer to a table,
`fidelity` says how near any method comes.
"""
