"""Session: a program that a person works with, on a share of a GPU. Its spec and its status."""
