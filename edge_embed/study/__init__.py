"""Study of trained tables: their codes and rows, with the analyses of the papers."""
