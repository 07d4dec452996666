"""What runs in every Python process of a rank: `sitecustomize` on PYTHONPATH loads the package `cotenant_shim`.

Only `reporting` and `all_reduce` reach into it; it imports nothing from outside, because it also runs in interpreters
of an image that lack this package, from Python 3.8 on.
"""
