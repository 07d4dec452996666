"""What to write instead: what newcomers write for names, shapes and words, and the answer that a refusal ends with."""
