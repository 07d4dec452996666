"""Pods of an attempt, and what stands beside them, made and deleted in the API server; all of it is safe to repeat.

Open to the rest of `execution`. What the objects look like is decided in `manifests`, whether they are wanted in
`lifecycle`.
"""
