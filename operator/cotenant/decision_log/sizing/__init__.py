"""Sizing: which class of GPU and how many workers suit a job, from its own past runs and from figures of classes. Pure.

`past_runs` is what was measured, `gpu_figures` what makers say of classes, `candidates` what follows from both.
"""
