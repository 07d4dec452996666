"""Scenarios of `bench/throughput.py`: the clusters, and how a decision about them is timed."""
