"""One decision from end to end: `schedule` takes a snapshot and returns a plan, by turns that admit, and with advice
for who waits. The door of the core: controller and simulator come in here, and of the core `outlook` alone, to play
what comes.
"""
