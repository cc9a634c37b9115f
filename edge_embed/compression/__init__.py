"""Tables that are trained already, as layers: what they learned, without training them again; one file a method.

Besides, `edge_embed.compression.order`: orders of rows in which trains and rings come nearer to a table.
"""
