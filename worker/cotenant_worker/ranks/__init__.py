"""The rank processes of one pod: what they run, in which environment, within which memory, started warm or cold.

The launcher and the pods of parameter servers import it. Nothing here decides what becomes of other ranks.
"""
