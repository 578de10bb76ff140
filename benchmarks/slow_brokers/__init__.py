"""Brokers that answer late, or at full rate, and what the clients make of their limits."""
