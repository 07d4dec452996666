"""What is not Cotenant's and holds GPUs, counted as jobs of no queue. Open to `held_by_others` and `gpu_holders`."""
