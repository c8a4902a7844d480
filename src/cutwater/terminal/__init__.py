"""What people see of a job in a terminal."""
