"""How fast a compressed table is beside others: random tables of a grid of shapes, or those of a file."""
