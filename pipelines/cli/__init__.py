"""The command `medusa`: one file for each command."""
