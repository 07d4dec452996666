"""GPU nodes as the core may use them: their GPUs, whether their agents are heard, and what keeps jobs away.

Open to `cluster_view` and to reporters on nodes. Nothing is written here.
"""
