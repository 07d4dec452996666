"""What users write ⇄ core values. Input is parsed here, once; past this room there are no dicts."""
