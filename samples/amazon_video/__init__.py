"""A recommender: the next item of a user, from the last ones."""
