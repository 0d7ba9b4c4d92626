"""The views around the engine page; each renders the session and owns no facts."""
