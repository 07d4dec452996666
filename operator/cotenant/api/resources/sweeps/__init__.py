"""Sweep: a TrainingJob that is tried with many configurations. What a tenant writes, and what becomes of it."""
