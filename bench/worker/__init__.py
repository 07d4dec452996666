"""Benchmarks of what runs in worker pods: collectives, parameter servers, and what all else beside the ranks costs.

Scripts that print a table. Nothing imports them.
"""
