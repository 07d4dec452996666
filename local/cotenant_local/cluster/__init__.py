"""A cluster from outside: what it shall be (`spec`), its plan, its folder, and `up`, `down` and `status`.

The way in for the command line, the demo, tests and benchmarks; what runs inside the sandbox imports nothing of it.
"""
