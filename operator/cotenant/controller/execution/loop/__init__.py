"""The scheduling loop: which jobs are looked at, what is observed of them, and one write at a time for each.

The process starts it, and `work_queue` serves other reconcilers too. It decides nothing and calls no API server itself.
"""
