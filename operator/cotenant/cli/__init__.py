"""`cotenant …` and the kubectl plugin. Heavy imports live inside the verbs."""
