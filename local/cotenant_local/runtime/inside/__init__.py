"""Code between a fork and the user's program: standard library only, single-threaded, loaded once by the zygote.

Nothing here may import from outside this package: `python -I -S` loads it, it is forked for every pod and container.
"""
