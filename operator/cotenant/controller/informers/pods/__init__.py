"""Pods as they were observed: decoded, indexed by job and node; also pods whose object is gone.

Open to all readers of the cache. Labels and owners are never trusted here, because tenants can edit them.
"""
