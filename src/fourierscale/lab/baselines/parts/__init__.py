"""What the baselines are built from: two frames, bases of kernels, and convolutions over several scales."""
