"""Bookings: made by administrators, held to by the core, ended by time. Here is what stands in their status."""
