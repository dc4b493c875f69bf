"""The books: tables, sessions, migrations, and the lock that keeps a second head away."""
