"""Builds and runs the local stack. Standard library only: it must work before anything is installed."""
