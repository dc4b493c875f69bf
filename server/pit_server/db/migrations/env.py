"""Alembic's entry: runs the migrations on the connection that `migrate.upgrade` opened."""

from alembic import context

from pit_server.db.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=True,  # on SQLite, too: a head killed during a migration leaves the old tables intact
)
with context.begin_transaction():
    context.run_migrations()
