"""Databases, their roles and migrations, and a server of our own."""
