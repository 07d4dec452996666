"""A cluster seen from outside: its `spec`, its plan, its folder, and `up`, `down` and `status`.

Used by the command line, the demo, tests and benchmarks. Code inside the sandbox imports nothing of it.
"""
