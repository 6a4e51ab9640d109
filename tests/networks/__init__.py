"""Homes on machines of their own: network namespaces with nothing in common but a cable."""
