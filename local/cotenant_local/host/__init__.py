"""The machine and its files: processes, mounts, cgroups, ids, folders, and clients of sockets and of the API server.

Every package above may come in; nothing here may import one of them. Light, for the inits import it.
"""
