"""Many runs as one job: a file defines them, an engine runs them, and each can be resumed. Imports no torch."""
