"""The compiler as a service: lite spaces composed and kernels compiled from settings alone."""
