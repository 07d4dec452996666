"""What placements hold: allocations, occupancy with trials, requests and candidates for eviction.

Open to `snapshot` and everything above it. Searches nothing and decides nothing.
"""
