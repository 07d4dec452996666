"""The packing policy: scores that keep what is left of the nodes useful for the workload that is likely to come.

Open to `placement` through `Packing` alone. Filters and chooses nothing.
"""
