"""How far the job is: one board in rank 0's pod, served over HTTP, passed to TensorBoard or MLflow, and
written into the termination message.

Runs in PID 1, so standard library only; nothing here decides what happens to the ranks.
"""
