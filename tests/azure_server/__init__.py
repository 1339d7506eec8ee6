"""A stand-in for Azure on the loopback interface: sign-in, Resource Manager and Resource Graph, over HTTPS."""
