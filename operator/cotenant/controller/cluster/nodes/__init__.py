"""GPU nodes as the core may use them: their GPUs, whether their agents are heard, what keeps them from taking jobs.

Open to `cluster_view` and to those who report on nodes. Nothing is written here.
"""
