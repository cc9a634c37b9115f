"""Files of word vectors that other tools write, as programs that look rows up, and models of transformers.

One file a format; `find` tells it by content. A reader gives `Vectors` or `PackedVectors`, `program` makes a model of
them. `stream` reads plain and gzip files alike, and `rows` is what formats of one row after the other share.
`fasttext_file` and `fasttext_model` are what both formats of fastText share, `ngrams` is what it makes words of.
"""
