"""The queue tree with its quota lines, and the usage that is counted under them.

Open to the rest of the core and to reports about queues. Knows no nodes beyond their capacity.
"""
