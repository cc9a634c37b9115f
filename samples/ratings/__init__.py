"""Ratings of items by users: a matrix factorisation whose two tables are dense or compressed."""
