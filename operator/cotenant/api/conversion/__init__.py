"""Documents → models → values of the core, and placements back into a status. No other package knows both sides."""
