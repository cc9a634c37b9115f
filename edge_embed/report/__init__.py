"""Reports: `results` holds the results of commands, `views` renders them."""
