"""Whose GPU memory it is, and whether it is more than was granted: functions from /proc and samples to violations.

Nothing is ended here; the operator ends pods.
"""
