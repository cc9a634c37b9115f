"""Bundles and compressed models on the Hugging Face Hub."""
