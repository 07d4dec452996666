"""Readers of traces: what came when and how long it really ran, in the layouts in which such lists are published.

`trace` is what all of them give, `formats` opens a file and finds out which it is. A reader says what it left out.
"""
