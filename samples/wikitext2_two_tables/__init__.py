"""Language model of WikiText-2 with two tables of one method, as in the TT paper."""
