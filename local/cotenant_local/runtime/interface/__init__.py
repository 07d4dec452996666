"""CRI as this runtime takes it: generated messages, the configuration, which fields are applied and which are refused.

Every field of the interface is in `field_support` or the pod that sets it is refused: nothing is ignored silently.
"""
