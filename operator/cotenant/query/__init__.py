"""Questions about the cluster, answered from one planned snapshot as values: why a job waits, what would start it.

Pure: frozen values in, frozen values out, over the core's own `schedule`. `situation` is what is asked about;
`redaction` is what of other tenants an answer shows. Open to the controller.
"""
