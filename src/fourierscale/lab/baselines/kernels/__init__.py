"""Triton kernels of the baselines, so that these are as fast on GPUs as they can be."""
