"""The life of a group of ranks, from start to verdict: pure rules, and the conductor that applies them.

The launcher and the driver run a conductor; ranks never import this. Nothing here starts a process or imports Ray.
"""
