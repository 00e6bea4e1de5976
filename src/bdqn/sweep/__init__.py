"""Many runs as one job: a file says which, an engine carries them out, and every run can be resumed. No torch."""
