"""Reports about Queues and LocalQueues: their statuses, written when they say something new, and their gauges.

Fed with every plan and its snapshot. Nothing here decides, and no decision waits for it.
"""
