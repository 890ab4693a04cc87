"""The one error a user is meant to see: a fact, its likely cause, and the fix, in one line."""


class ColdError(ValueError):
    """Something in what the user gave cannot work; the message says what, why and how to mend it."""
