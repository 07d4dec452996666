"""Sweeps: trials that are chosen by Optuna and run as TrainingJobs.

`sweep_kind` decides, `search` asks the library, `trial_jobs` builds what is created. Nothing is kept in memory: all
that a decision needs stands in the status and in the jobs.
"""
