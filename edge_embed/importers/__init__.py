"""Files of word vectors that other tools write, as programs that look rows up, and models of transformers.

One file a format; `find` tells it by content. A reader gives `Vectors`, `program` makes a model of them. `stream` reads
plain and gzip files alike, `rows` is what formats of one row after the other share, and `ngrams` what fastText makes
words of.
"""
