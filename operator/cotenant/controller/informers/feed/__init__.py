"""Where documents come from: kopf's watches, reflectors for the kinds that change often, and lists.

Open to the process. All of them end in the object cache, and nothing is decided here.
"""
