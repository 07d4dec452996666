"""Sweeps: Optuna chooses trials, and they run as TrainingJobs.

`sweep_kind` decides, `search` asks Optuna, and `trial_jobs` builds the jobs. Nothing is kept in memory: a decision
needs the status and the jobs only.
"""
