"""Which share of a model a table needs to be worth the loss."""

WORTH = 0.05  # of the numbers of a model: smaller tables cost accuracy and save nothing
