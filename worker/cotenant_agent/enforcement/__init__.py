"""Attributes GPU memory to pods and compares it with what was granted: functions from /proc and samples to violations.

Nothing is ended here; the operator ends pods.
"""
