"""Sizing: which class of GPU and how many workers suit a job, from its past runs and from figures of classes. Pure.

`past_runs` is what was measured, `gpu_figures` what makers say about classes, `candidates` the result.
"""
