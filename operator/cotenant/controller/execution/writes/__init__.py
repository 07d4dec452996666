"""Writes to the API server: statuses of jobs, their pods and what stands beside them, Events. All are safe to repeat.

The loop starts them. What is written is decided in `lifecycle` and in the core.
"""
