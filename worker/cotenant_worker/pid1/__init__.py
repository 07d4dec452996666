"""Process 1 of a worker pod: starts and reaps everything, answers health, owns the exit code.

Nothing imports it but the package's `__main__`. Stdlib only: it never imports ray, torch or a program of the tenant.
"""
