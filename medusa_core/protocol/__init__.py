"""The protocol between participants: the documents of each call, with their fields and limits."""
