"""Networks in SQL: a `.sql` file compiles to the boxes that Python has, and to nothing else."""
