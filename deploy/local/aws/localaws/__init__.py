"""An AWS API for tests: moto where moto is faithful, our own answers where it is not.

The package serves the calls a node autoscaler makes. It is not a general AWS emulator: what is not
listed in the README is moto's, unchanged.
"""

ACCOUNT = "123456789012"
