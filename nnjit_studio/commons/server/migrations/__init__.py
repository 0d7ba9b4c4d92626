"""Steps from one schema of the commons to the next, run by Alembic."""
