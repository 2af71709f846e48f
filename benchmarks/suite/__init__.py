"""The kernels that Sterna and numba are compared on, each written for both, and their inputs."""
