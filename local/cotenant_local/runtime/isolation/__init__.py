"""Isolation of containers: cgroups, ids and capabilities, the pod network, devices. Each file is one mechanism.

Values in, settings out; nothing here knows which containers there are.
"""
