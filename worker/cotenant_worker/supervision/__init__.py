"""The life of a group of ranks, from start to verdict: pure rules, and the conductor that carries them out.

The launcher and the driver run a conductor; ranks never come in. Nothing here starts a process or imports Ray.
"""
