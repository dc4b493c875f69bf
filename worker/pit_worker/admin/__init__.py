"""Commands for admins: join, install, doctor."""
