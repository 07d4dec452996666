"""How GPUs get into pods, and what keeps pods apart on them. Values in, values out: no client, no clock. Pure.

`node_isolation` has what a node can do, `rendering` adds GPUs to a pod by it, and `verification` judges what was found
of the pod since.
"""
