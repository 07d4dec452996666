"""The transport between processes of a job: JSON lines, strict codecs, a handshake, counters in shared memory.

All rooms above may import it. It interprets no message.
"""
