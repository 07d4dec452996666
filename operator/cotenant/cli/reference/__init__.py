"""What is read off the parser: completions of shells, the page of commands, manual pages."""
