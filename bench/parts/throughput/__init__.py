"""Scenarios of `bench/throughput.py`: which clusters are decided on, and how the decision is timed."""
