"""Bookings: an administrator makes one, the core keeps its GPUs free, and it ends at a time. This package decides the
status.
"""
