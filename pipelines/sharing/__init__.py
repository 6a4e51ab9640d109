"""Delta Sharing: streams as tables for recipients that run no Medusa."""
