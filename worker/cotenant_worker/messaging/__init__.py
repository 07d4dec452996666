"""How processes of a job exchange bytes: JSON lines, strict codecs, a handshake, counters in shared memory.

All rooms above come in. No message is interpreted here.
"""
