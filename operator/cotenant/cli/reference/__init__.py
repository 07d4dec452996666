"""What is generated from the parser: shell completions, the page of commands, manual pages."""
