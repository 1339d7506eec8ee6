"""A stand-in for Azure on the loopback interface: sign-in and Resource Manager, over HTTPS."""
