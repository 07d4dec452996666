"""Order of jobs: guarantees, dominant shares, past usage, and the turns that follow from them.

Open to `state` and everything above it. Knows nothing of nodes.
"""
