"""The database: tables, sessions, migrations, and the lock against a second head."""
