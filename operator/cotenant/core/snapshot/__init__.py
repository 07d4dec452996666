"""The cluster at one moment: the snapshot that `schedule` reads, and its accounting.

Open to `queueing` and everything above it. Never written after it is made.
"""
