"""Programs that run in ranks or children of a benchmark, started by path with this folder as their code.

They import the worker's public API and each other by file name, and nothing of `bench`.
"""
