"""Cotenant from Python: describe a job, ask what would become of it, submit it, follow it.

Users come in by `import cotenant`; nothing here has rights of its own, all is asked of the API server as its caller.
It never decides, and computes nothing that the operator has computed.
"""
