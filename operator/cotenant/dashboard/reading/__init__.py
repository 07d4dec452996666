"""What a page reads: lists and watches with the caller's own token, kept as rows while a page is open."""
