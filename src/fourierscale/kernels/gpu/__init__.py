"""GPU kernels in Triton; imported only where they run."""
