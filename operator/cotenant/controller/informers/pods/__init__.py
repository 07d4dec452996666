"""Pods as they were observed: decoded, indexed by job and node, and what is known of those whose object is gone.

Open to whoever reads the cache. Nothing here believes labels or owners, which tenants can edit.
"""
