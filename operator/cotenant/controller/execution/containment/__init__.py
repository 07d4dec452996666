"""Failures of the operator itself, kept to the one job that they concern.

The loop hands every such failure in here. What a quarantine is, and its condition, is in `informers.quarantine`.
"""
