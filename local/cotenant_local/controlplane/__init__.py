"""The control plane from inside the sandbox: the supervisor (PID 1) and what it starts, the network, the first objects.

Entered as programs, and by the control socket; the folder of the cluster and its plan are all that it reads.
"""
