"""Reports: `results` holds what commands found, `views` shows it."""
