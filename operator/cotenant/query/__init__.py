"""Questions about the cluster, answered as values from one planned snapshot: why a job waits, what would start it.

Pure: frozen values in, frozen values out, with the core's own `schedule`. `situation` is what is asked about;
`redaction` decides what an answer shows of other tenants. Open to the controller.
"""
