"""What each page shows, as values: pure functions of rows, of a wish (page, filter) and of the time."""
