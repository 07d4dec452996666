"""Failures of the operator itself, contained to the one job that they concern.

The loop hands every such failure in here. A quarantine and its condition are defined in `informers.quarantine`.
"""
