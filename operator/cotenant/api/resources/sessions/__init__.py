"""Session: a program that a person works with, on a share of a GPU. What is written of it, and what is reported."""
