"""Rules that CEL and Python share, the base of every model, and the one error that a refused document raises."""
