"""Objects of the API server, decoded once when they are seen, and what is remembered of a job beside them.

Fed by watches, lists and the answers to writes. It decides nothing and calls no API server, but for kopf's watches.
"""
