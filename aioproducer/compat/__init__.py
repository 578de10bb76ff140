"""Other clients' interfaces over this project's core: a program changes an import and no call."""
