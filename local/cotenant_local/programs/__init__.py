"""Programs that are built once and kept in the cache: the Go binaries of Kubernetes, and the stubs of its interfaces.

A build happens outside every sandbox, before a cluster starts; nothing here knows of clusters. The link
`cotenant_local/programs/source` brings the Go module into the wheel.
"""
