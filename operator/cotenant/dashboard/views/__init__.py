"""The content of each page, as values: pure functions of rows, of the query (page, filter) and of the time."""
