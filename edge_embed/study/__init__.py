"""What a table has learned: its codes and rows, looked at as the papers do."""
