"""The CRI interface: generated messages, the configuration, and which fields are applied or refused.

Every field is in `field_support`, or a pod that sets it is refused. Nothing is ignored silently.
"""
