"""Actions besides placing a job where it fits: keep nominations, evict, reserve, move and grow.

Open to `scheduler` alone. Each action returns what it decided as a value; `scheduler` applies it.
"""
