"""What-if replay of recorded load under changed contracts; read-only."""
