"""What commands found, as dataclasses and JSON; each names the view that shows it."""
