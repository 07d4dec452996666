"""Pods of an attempt and the objects beside them: made and deleted in the API server. All of it may be repeated.

Open to the rest of `execution`. `manifests` decides what the objects look like, `lifecycle` whether they are wanted.
"""
