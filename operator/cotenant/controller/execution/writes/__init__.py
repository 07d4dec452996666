"""Writes to the API server: statuses of jobs, pods with the objects beside them, and Events. All may be repeated.

The loop starts them. Their content is decided in `lifecycle` and in the core.
"""
