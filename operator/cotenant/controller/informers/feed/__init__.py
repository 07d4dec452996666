"""Sources of documents: kopf's watches, reflectors for kinds that change often, and lists.

Open to the process. All documents go into the object cache. Nothing is decided here.
"""
