"""Process 1 of a worker pod: starts and reaps everything, answers health, owns the exit code.

Only the package's `__main__` imports it. Stdlib only: it never imports ray, torch or a program of the tenant.
"""
