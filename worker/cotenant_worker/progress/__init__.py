"""How far the job is: one board in rank 0's pod, served over HTTP, sent to TensorBoard or MLflow, and written into the
termination message.

It runs in PID 1, so it uses the standard library only. Nothing here decides what happens to the ranks.
"""
