"""Whether a user takes an item: three tables."""
