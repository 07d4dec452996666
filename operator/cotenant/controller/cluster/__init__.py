"""The cluster as the core sees it: nodes, queues, jobs and what still holds GPUs, kept in step with the cache.

The scheduling loop alone may change it. No call to the API server is made here.
"""
