"""The transport between processes of a job: JSON lines, strict codecs, a handshake, counters in shared memory.

All rooms above come in. No message is interpreted here.
"""
