"""How GPUs get into pods, and what keeps pods apart on them: one protocol, one file per path, one choice per node.
Pure.

Values in, values out: no client, no clock. `gpu_isolation` has the protocol, `choice` decides which paths a node uses.
"""
