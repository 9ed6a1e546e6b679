"""Language servers: started on demand, spoken to in plain dicts, never trusted to behave (T3)."""
