"""The client of partners' exchange servers: what this participant asks of others over HTTPS."""
