"""What runs in every Python process of a rank: `sitecustomize` on PYTHONPATH loads the package `cotenant_shim`.

Only `reporting`, `all_reduce` and `phases` use it. It imports nothing from outside, because it also runs in
interpreters from Python 3.8 on whose image lacks this package.
"""
