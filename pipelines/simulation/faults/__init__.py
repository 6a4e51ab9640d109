"""The stream protocol under faults, in virtual time."""
