"""Checkpoints that are complete or absent: on a file system (`local_store`), on an fsspec address (`fsspec_store`).

Ranks save and load, through `reporting.Saver`. PID 1 only looks for the newest one, and never imports fsspec.
"""
