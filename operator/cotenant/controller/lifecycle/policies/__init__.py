"""Policies that may end an attempt of an admitted job, one in each file, named after its field or setting.

`reconcile` asks them in order. A policy reads the observation and returns an ending. It writes nothing and calls no
client.
"""
