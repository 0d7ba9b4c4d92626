"""The server of the commons; needs the packages of the extra ``server``."""
