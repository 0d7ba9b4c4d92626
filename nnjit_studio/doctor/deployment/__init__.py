"""A bundle on a web server: served with the right headers, and checked at its address."""
