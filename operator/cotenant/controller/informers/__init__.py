"""What the API server holds, decoded once when it is seen, and what is remembered of a job beside it.

Fed by watches, lists and the answers to writes. It decides nothing and calls no API server, but for kopf's watches.
"""
