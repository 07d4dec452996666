"""Policies that may end an attempt of an admitted job, each a file named after the field or the setting that it obeys.

`reconcile` asks them in its order. A policy reads the observation and returns an ending; it writes nothing and calls no
client.
"""
