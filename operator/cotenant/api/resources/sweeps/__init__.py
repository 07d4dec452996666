"""Sweep: a TrainingJob that is run with many configurations. Its spec and its status."""
