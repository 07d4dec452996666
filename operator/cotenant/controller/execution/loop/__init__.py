"""The scheduling loop: it looks at jobs that changed, observes them, and starts one write at a time for each.

The process starts it. Other reconcilers use `work_queue` too. The loop decides nothing and calls no API server itself.
"""
