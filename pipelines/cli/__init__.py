"""What each command does and prints; deciding and doing lie in the other rooms."""
