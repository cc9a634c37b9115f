"""Baselines of the papers: tables that are compressed after training, trained in other forms, or both."""
