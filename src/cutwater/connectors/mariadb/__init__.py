"""Tables of MariaDB and MySQL."""
