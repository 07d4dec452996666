"""Holders of GPUs that are not Cotenant's, represented as jobs of no queue.

Open to `held_by_others` and `gpu_holders`.
"""
