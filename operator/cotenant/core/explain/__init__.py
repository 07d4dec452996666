"""Explanations for jobs that wait: the reason, the forecast of the start, and the smallest change that would help.

Open to `actions` and `scheduler`. Changes what is held only in trials that are rolled back.
"""
