"""How far the job is: one board in rank 0's pod, served over HTTP, tracked by TensorBoard or MLflow, told at the end.

Runs in PID 1, so standard library only; nothing here decides what happens to the ranks.
"""
