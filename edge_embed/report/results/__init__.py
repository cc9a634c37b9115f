"""Results of commands as dataclasses and JSON; each names the view that renders it."""
