"""Objects of the API server, decoded once when they are seen, and a memory for each job.

Watches, lists and the answers to writes feed it. It decides nothing, and calls no API server except through `feed`.
"""
