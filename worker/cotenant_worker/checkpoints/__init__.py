"""Checkpoints that are whole or not there: on a file system (`local_store`), on an fsspec address (`fsspec_store`).

Ranks save and load, through `reporting.Saver`; PID 1 only looks for the newest, and never imports fsspec.
"""
