"""What to write instead: frequent mistakes in names, shapes and words, and the answer at the end of a refusal."""
